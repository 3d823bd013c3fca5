//! What the Kafka backend can be told.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::brokers::BrokerSource;

#[derive(Clone)]
pub struct Options {
    pub brokers: BrokerSource,
    /// Handed to librdkafka as they are, for producers and readers alike; TLS and SASL among them.
    pub properties: BTreeMap<String, String>,
    pub partitioner: Partitioner,
    pub compression: Compression,
    /// How long a caller waits for an acknowledgement. Kafka is given up on somewhat earlier, so
    /// that what is known by then is said.
    pub produce_timeout: Duration,
    /// A message to a topic that does not exist creates it, with as many partitions and replicas as
    /// the cluster makes by default; 100 at once, then one a second, at most 1,000 in the life of a process.
    pub auto_create_topics: bool,
    /// Key, value and headers together.
    pub max_message_bytes: usize,
    /// What may wait for Kafka or be under way to it.
    pub local_queue_records: usize,
    pub local_queue_bytes: usize,
    /// Fetched ahead for one reader. The batch that does not fit is fetched all the same.
    pub prefetch_bytes: usize,
    /// Fetched ahead for all readers that do not take it. Above that, the partitions that nobody
    /// has read for longest are fetched again later.
    pub prefetch_total_bytes: usize,
    /// How often readers that get nothing are compared with the ends of their partitions. One that
    /// stands still for two looks although there are records ahead is opened anew.
    pub watch_every: Duration,
}

impl Options {
    /// With every default.
    pub fn new(brokers: BrokerSource) -> Self {
        Self {
            brokers,
            properties: BTreeMap::new(),
            partitioner: Partitioner::default(),
            compression: Compression::default(),
            produce_timeout: Duration::from_secs(10),
            auto_create_topics: false,
            max_message_bytes: 1 << 20,
            local_queue_records: 100_000,
            local_queue_bytes: 64 << 20,
            prefetch_bytes: 256 << 10,
            prefetch_total_bytes: 64 << 20,
            watch_every: Duration::from_secs(10),
        }
    }

    /// So many readers may hold what they do not take: what waits for each, and a fetch under way.
    pub(super) fn unread_readers(&self) -> usize {
        (self.prefetch_total_bytes / (2 * self.prefetch_bytes.max(1))).max(4)
    }
}

/// Without the values of properties: passwords are among them.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let properties: Vec<&String> = self.properties.keys().collect();
        f.debug_struct("Options").field("brokers", &self.brokers).field("properties", &properties).finish_non_exhaustive()
    }
}

/// Why the backend cannot start with these options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    #[error("no Kafka broker is named")]
    NoBroker,
    #[error("the property `{name}` cannot be set: {why}")]
    Property { name: String, why: &'static str },
    #[error("{word:?} is no {what}; there are {choices}")]
    Word { what: &'static str, word: String, choices: String },
    /// As librdkafka says it.
    #[error("the Kafka client does not start with these settings: {0}")]
    Client(String),
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            pub const WORDS: &[&str] = &[$($word),+];
            /// Each with its word.
            pub const ALL: &[(&str, Self)] = &[$(($word, Self::$variant)),+];

            /// As librdkafka spells it.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl FromStr for $name {
            type Err = OptionsError;

            fn from_str(word: &str) -> Result<Self, OptionsError> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(OptionsError::Word { what: $what, word: word.to_owned(), choices: Self::WORDS.join(", ") }),
                }
            }
        }
    };
}

choice! {
    /// Which partition a key belongs to. Producers of one topic must agree, or a key loses its order.
    Partitioner, "partitioner",
    /// As the Java client: murmur2 of the key; without a key, any.
    #[default]
    Murmur2Random = "murmur2_random",
    Murmur2 = "murmur2",
    ConsistentRandom = "consistent_random",
    Consistent = "consistent",
    Fnv1aRandom = "fnv1a_random",
    Fnv1a = "fnv1a",
    Random = "random"
}

choice! {
    Compression, "compression",
    #[default]
    None = "none",
    Gzip = "gzip",
    Snappy = "snappy",
    Lz4 = "lz4",
    Zstd = "zstd"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn listed() -> Options {
        Options::new(BrokerSource::Listed(vec!["127.0.0.1:9092".to_owned()]))
    }

    #[test]
    fn a_misspelt_partitioner_is_refused_and_the_default_is_the_java_clients() {
        assert_eq!("fnv1a".parse(), Ok(Partitioner::Fnv1a));
        assert_eq!(Partitioner::default().word(), "murmur2_random");
        let error = "murmur2-random".parse::<Partitioner>().unwrap_err().to_string();
        assert!(error.starts_with("\"murmur2-random\" is no partitioner; there are murmur2_random, murmur2,"), "{error}");
        assert!("zip".parse::<Compression>().is_err());
    }

    #[test]
    fn passwords_are_not_shown() {
        let shown = format!("{:?}", Options { properties: [("sasl.password".to_owned(), "secret".to_owned())].into(), ..listed() });
        assert!(shown.contains("sasl.password") && shown.contains("127.0.0.1:9092") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn what_nobody_reads_has_a_bound_in_total() {
        assert_eq!(listed().unread_readers(), 128);
    }
}

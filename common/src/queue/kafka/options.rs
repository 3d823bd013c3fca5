//! What the Kafka backend can be told, and the settings of librdkafka that follow from it.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka_sys::types::RDKafkaConfRes;

/// Needs to be authorised where the cluster has ACLs: a consumer asks for one even when it commits nothing.
const READER_GROUP: &str = "mqgate-reader";

#[derive(Debug, Clone)]
pub struct Options {
    /// `host:port` each; one that answers is enough.
    pub brokers: Vec<String>,
    /// Handed to librdkafka as they are, for producers and readers alike; TLS and SASL among them.
    pub properties: BTreeMap<String, String>,
    pub partitioner: Partitioner,
    pub compression: Compression,
    /// How long a caller waits for an acknowledgement. Kafka is given up on somewhat earlier, so
    /// that what is known by then is said.
    pub produce_timeout: Duration,
    /// Key, value and headers together.
    pub max_message_bytes: usize,
    /// What may wait for Kafka or be under way to it.
    pub local_queue_records: usize,
    pub local_queue_bytes: usize,
    /// Fetched ahead for one reader. The record that does not fit is fetched all the same.
    pub prefetch_bytes: usize,
}

impl Options {
    /// With every default.
    pub fn new(brokers: Vec<String>) -> Self {
        Self {
            brokers,
            properties: BTreeMap::new(),
            partitioner: Partitioner::default(),
            compression: Compression::default(),
            produce_timeout: Duration::from_secs(10),
            max_message_bytes: 1 << 20,
            local_queue_records: 100_000,
            local_queue_bytes: 64 << 20,
            prefetch_bytes: 256 << 10,
        }
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

const BROKERS: &str = "the brokers are a field of their own";
const FIELD: &str = "it is a field of its own";
const DURABLE: &str = "a 200 means that every replica in sync has the message, once";
const EXACT: &str = "nothing is skipped or delivered before it is committed";
const BOUNDED: &str = "it follows from produce_timeout and the bounds of the local queue";
const NO_CREATION: &str = "a topic that does not exist is refused, not created";

/// Settings on which promises rest.
const FIXED: &[(&str, &str)] = &[
    ("bootstrap.servers", BROKERS),
    ("metadata.broker.list", BROKERS),
    ("partitioner", FIELD),
    ("compression.type", FIELD),
    ("compression.codec", FIELD),
    ("acks", DURABLE),
    ("request.required.acks", DURABLE),
    ("enable.idempotence", DURABLE),
    ("transactional.id", DURABLE),
    ("group.id", "readers need no group but mqgate-reader"),
    ("group.instance.id", "readers need no group but mqgate-reader"),
    ("auto.offset.reset", EXACT),
    ("isolation.level", EXACT),
    ("enable.partition.eof", EXACT),
    ("enable.auto.commit", EXACT),
    ("auto.commit.enable", EXACT),
    ("enable.auto.offset.store", EXACT),
    ("message.timeout.ms", BOUNDED),
    ("delivery.timeout.ms", BOUNDED),
    ("message.max.bytes", BOUNDED),
    ("queue.buffering.max.messages", BOUNDED),
    ("queue.buffering.max.kbytes", BOUNDED),
    ("allow.auto.create.topics", NO_CREATION),
    ("plugin.library.paths", "a plugin could undo what is promised here"),
];

/// Why a property cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    #[error("cannot be set: {0}")]
    Fixed(&'static str),
    #[error("is no property of the Kafka client")]
    Unknown,
    /// As librdkafka says it, which may repeat the value.
    #[error("{0}")]
    Value(String),
}

/// Whether one of [`Options::properties`] can be set, by itself; what it means beside others shows
/// when a client starts.
pub fn check_property(name: &str, value: &str) -> Result<(), PropertyError> {
    if let Some((_, why)) = FIXED.iter().find(|(fixed, _)| *fixed == name) {
        return Err(PropertyError::Fixed(why));
    }
    match ClientConfig::new().set(name, value).create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => Err(PropertyError::Unknown),
        Err(KafkaError::ClientConfig(_, why, ..)) => Err(PropertyError::Value(why)),
        Err(error) => Err(PropertyError::Value(error.to_string())),
    }
}

/// What both kinds of clients share.
fn common(options: &Options) -> Result<ClientConfig, OptionsError> {
    if options.brokers.is_empty() {
        return Err(OptionsError::NoBroker);
    }
    let mut config = ClientConfig::new();
    config.set("client.id", "mqgate");
    // A broker that went away is looked for again soon, but not in a hot loop.
    config.set("reconnect.backoff.ms", "100").set("reconnect.backoff.max.ms", "2000");
    config.set("socket.connection.setup.timeout.ms", "5000");
    config.set("socket.keepalive.enable", "true");
    for (name, value) in &options.properties {
        if let Some((_, why)) = FIXED.iter().find(|(fixed, _)| fixed == name) {
            return Err(OptionsError::Property { name: name.clone(), why });
        }
        config.set(name, value);
    }
    config.set("bootstrap.servers", options.brokers.join(","));
    config.set("allow.auto.create.topics", "false");
    Ok(config)
}

pub(super) fn admin(options: &Options) -> Result<ClientConfig, OptionsError> {
    common(options)
}

/// How many messages go into one request to a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Batching {
    Many,
    /// So that a refusal by the broker is about that message and no other.
    Single,
}

/// Below the default `max.message.bytes` of a topic, 1,048,588, together with a message of
/// ordinary size that is just being added.
pub(super) const BATCH_BYTES: usize = 900_000;

pub(super) fn producer(options: &Options, batching: Batching) -> Result<ClientConfig, OptionsError> {
    let mut config = common(options)?;
    // Batches form while requests are under way, so an idle gateway waits for nothing.
    if !options.properties.keys().any(|name| matches!(name.as_str(), "linger.ms" | "queue.buffering.max.ms")) {
        config.set("linger.ms", "0");
    }
    config.set("enable.idempotence", "true").set("acks", "all");
    config.set("partitioner", options.partitioner.word());
    config.set("sticky.partitioning.linger.ms", "1");
    config.set("compression.type", options.compression.word());
    config.set("message.timeout.ms", message_timeout(options.produce_timeout).as_millis().to_string());
    config.set("topic.metadata.propagation.max.ms", "2000");
    // librdkafka counts what frames a record, too.
    let room = options.max_message_bytes.saturating_add(64 << 10).clamp(1_000_000, 1_000_000_000);
    config.set("message.max.bytes", room.to_string());
    config.set("queue.buffering.max.messages", options.local_queue_records.to_string());
    config.set("queue.buffering.max.kbytes", (options.local_queue_bytes >> 10).max(1).to_string());
    match batching {
        Batching::Many => config.set("batch.size", BATCH_BYTES.to_string()),
        Batching::Single => config.set("batch.num.messages", "1"),
    };
    Ok(config)
}

/// It is enforced about once a second, and then the answer has to be brought to the caller.
fn message_timeout(produce_timeout: Duration) -> Duration {
    produce_timeout.saturating_sub(Duration::from_millis(1_500)).max(produce_timeout / 2).max(Duration::from_millis(300))
}

pub(super) fn reader(options: &Options) -> Result<ClientConfig, OptionsError> {
    let mut config = common(options)?;
    config.set("group.id", READER_GROUP);
    config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
    config.set("auto.offset.reset", "error");
    config.set("isolation.level", "read_committed");
    config.set("enable.partition.eof", "true");
    let bytes = options.prefetch_bytes.clamp(64 << 10, 1 << 20);
    config.set("queued.max.messages.kbytes", (bytes >> 10).to_string());
    config.set("fetch.message.max.bytes", bytes.to_string());
    // The default, a second, is how long a partition rests each time its queue was full.
    config.set("fetch.queue.backoff.ms", "20");
    Ok(config)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn with(name: &str, value: &str) -> Options {
        let mut options = Options::new(vec!["127.0.0.1:9092".to_owned()]);
        options.properties.insert(name.to_owned(), value.to_owned());
        options
    }

    #[test]
    fn settings_on_which_promises_rest_are_refused_by_name() {
        for (name, why) in FIXED {
            let expected = OptionsError::Property { name: (*name).to_owned(), why };
            assert_eq!(producer(&with(name, "1"), Batching::Many).unwrap_err(), expected);
            assert_eq!(reader(&with(name, "1")).unwrap_err(), expected);
        }
        let error = reader(&with("isolation.level", "read_uncommitted")).unwrap_err().to_string();
        assert!(error.contains("`isolation.level`"), "{error}");
    }

    #[test]
    fn other_settings_are_passed_through() {
        let options = with("sasl.mechanism", "SCRAM-SHA-512");
        assert_eq!(producer(&options, Batching::Many).unwrap().get("sasl.mechanism"), Some("SCRAM-SHA-512"));
        assert_eq!(reader(&options).unwrap().get("sasl.mechanism"), Some("SCRAM-SHA-512"));
        assert_eq!(producer(&with("linger.ms", "5"), Batching::Many).unwrap().get("linger.ms"), Some("5"));
    }

    #[test]
    fn a_property_is_judged_before_a_client_starts() {
        assert!(matches!(check_property("acks", "1"), Err(PropertyError::Fixed(why)) if why == DURABLE));
        assert_eq!(check_property("security.protocl", "ssl"), Err(PropertyError::Unknown));
        assert!(matches!(check_property("security.protocol", "tls"), Err(PropertyError::Value(why)) if why.contains("tls")));
        assert!(matches!(check_property("client.id", "a\0b"), Err(PropertyError::Value(_))));
        for (name, value) in
            [("security.protocol", "SASL_SSL"), ("sasl.password", "geheim ü"), ("linger.ms", "5"), ("socket.keepalive.enable", "true")]
        {
            assert_eq!(check_property(name, value), Ok(()), "{name}");
        }
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
    fn kafka_is_given_up_on_before_the_caller_does() {
        for (caller, kafka) in [(10_000, 8_500), (5_000, 3_500), (2_000, 1_000), (100, 300)] {
            assert_eq!(message_timeout(Duration::from_millis(caller)), Duration::from_millis(kafka));
        }
    }

    #[test]
    fn without_a_broker_nothing_starts() {
        assert_eq!(reader(&Options::new(Vec::new())).unwrap_err(), OptionsError::NoBroker);
    }
}

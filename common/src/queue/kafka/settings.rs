//! The settings of librdkafka that follow from the options.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka_sys::types::RDKafkaConfRes;

use super::options::{Options, OptionsError};
use super::readers::Pace;
use super::statistics::Statistics;

/// Needs to be authorised where the cluster has ACLs: a consumer asks for one even when it commits nothing.
const READER_GROUP: &str = "mqgate-reader";

const BROKERS: &str = "the brokers are a field of their own";
const FIELD: &str = "it is a field of its own";
const DURABLE: &str = "a 200 means that every replica in sync has the message, once";
const EXACT: &str = "nothing is skipped or delivered before it is committed";
const BOUNDED: &str = "it follows from produce_timeout and the bounds of the local queue";
const CREATION: &str = "topics are created where auto_create_topics says so, and by no other way";
const PREFETCH: &str = "it follows from the bounds of what is fetched ahead";
const COUNTED: &str = "mqgate makes metrics of it, every 5 s";

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
    ("allow.auto.create.topics", CREATION),
    ("queued.max.messages.kbytes", PREFETCH),
    ("fetch.message.max.bytes", PREFETCH),
    ("max.partition.fetch.bytes", PREFETCH),
    ("fetch.max.bytes", PREFETCH),
    ("statistics.interval.ms", COUNTED),
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

/// A setting that the properties may change.
fn default(config: &mut ClientConfig, options: &Options, name: &str, value: &str) {
    if !options.properties.contains_key(name) {
        config.set(name, value);
    }
}

/// What all kinds of clients share. `brokers` may be empty: they come later.
fn common(options: &Options, brokers: &str) -> Result<ClientConfig, OptionsError> {
    let mut config = ClientConfig::new();
    for (name, value) in &options.properties {
        if let Some((_, why)) = FIXED.iter().find(|(fixed, _)| fixed == name) {
            return Err(OptionsError::Property { name: name.clone(), why });
        }
        config.set(name, value);
    }
    let mut default = |name, value| default(&mut config, options, name, value);
    default("client.id", "mqgate");
    // A broker that went away is looked for again soon, but not in a hot loop: while no broker is
    // connected, librdkafka tries one after half of this, however often that failed.
    default("reconnect.backoff.ms", "500");
    default("reconnect.backoff.max.ms", "2000");
    default("socket.connection.setup.timeout.ms", "5000");
    // A connection that swallows what is sent is found out by it.
    default("socket.timeout.ms", "10000");
    default("socket.keepalive.enable", "true");
    if !brokers.is_empty() {
        config.set("bootstrap.servers", brokers);
    }
    config.set("allow.auto.create.topics", "false");
    Ok(config)
}

fn with_statistics(config: &mut ClientConfig, statistics: Statistics) {
    match statistics {
        Statistics::Made => config.set("statistics.interval.ms", "5000"),
        Statistics::None => config.set("statistics.interval.ms", "0"),
    };
}

pub(super) fn admin(options: &Options, brokers: &str) -> Result<ClientConfig, OptionsError> {
    common(options, brokers)
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

pub(super) fn producer(options: &Options, brokers: &str, batching: Batching, statistics: Statistics) -> Result<ClientConfig, OptionsError> {
    let mut config = common(options, brokers)?;
    with_statistics(&mut config, statistics);
    // Batches form while requests are under way, so an idle gateway waits for nothing.
    if !options.properties.contains_key("queue.buffering.max.ms") {
        default(&mut config, options, "linger.ms", "0");
    }
    config.set("enable.idempotence", "true").set("acks", "all");
    config.set("partitioner", options.partitioner.word());
    default(&mut config, options, "sticky.partitioning.linger.ms", "1");
    config.set("compression.type", options.compression.word());
    config.set("message.timeout.ms", message_timeout(options.produce_timeout).as_millis().to_string());
    default(&mut config, options, "topic.metadata.propagation.max.ms", "2000");
    // librdkafka counts what frames a record, too.
    let room = options.max_message_bytes.saturating_add(64 << 10).clamp(1_000_000, 1_000_000_000);
    config.set("message.max.bytes", room.to_string());
    config.set("queue.buffering.max.messages", options.local_queue_records.to_string());
    config.set("queue.buffering.max.kbytes", (options.local_queue_bytes >> 10).max(1).to_string());
    match batching {
        Batching::Many => default(&mut config, options, "batch.size", &BATCH_BYTES.to_string()),
        Batching::Single => {
            config.set("batch.num.messages", "1");
        }
    }
    Ok(config)
}

/// It is enforced about once a second, and then the answer has to be brought to the caller.
fn message_timeout(produce_timeout: Duration) -> Duration {
    produce_timeout.saturating_sub(Duration::from_millis(1_500)).max(produce_timeout / 2).max(Duration::from_millis(300))
}

/// What one answer of a broker holds at most, one batch that is larger excepted. It stays in memory
/// until the last of its records is taken.
const ANSWER_BYTES: usize = 1 << 20;

pub(super) fn reader(options: &Options, brokers: &str, statistics: Statistics, pace: Pace) -> Result<ClientConfig, OptionsError> {
    let mut config = common(options, brokers)?;
    with_statistics(&mut config, statistics);
    config.set("group.id", READER_GROUP);
    config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
    config.set("auto.offset.reset", "error");
    config.set("isolation.level", "read_committed");
    config.set("enable.partition.eof", "true");
    let bytes = options.prefetch_bytes.clamp(64 << 10, 1 << 20);
    config.set("queued.max.messages.kbytes", (bytes >> 10).to_string());
    config.set("fetch.message.max.bytes", bytes.to_string());
    config.set("fetch.max.bytes", ANSWER_BYTES.to_string());
    match pace {
        // The default, a second, is how long a partition rests each time its queue was full.
        Pace::Tail => default(&mut config, options, "fetch.queue.backoff.ms", "20"),
        // A fetch leaves out partitions whose queues are full. It must not wait long for the others.
        Pace::CatchUp => {
            config.set("fetch.wait.max.ms", "10");
            default(&mut config, options, "fetch.queue.backoff.ms", "2");
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::brokers::BrokerSource;
    use super::*;

    fn with(name: &str, value: &str) -> Options {
        let mut options = Options::new(BrokerSource::Listed(vec![BROKER.to_owned()]));
        options.properties.insert(name.to_owned(), value.to_owned());
        options
    }

    const BROKER: &str = "127.0.0.1:9092";

    fn producer(options: &Options) -> Result<ClientConfig, OptionsError> {
        super::producer(options, BROKER, Batching::Many, Statistics::Made)
    }

    fn reader(options: &Options) -> Result<ClientConfig, OptionsError> {
        super::reader(options, BROKER, Statistics::Made, Pace::Tail)
    }

    #[test]
    fn settings_on_which_promises_rest_are_refused_by_name() {
        for (name, why) in FIXED {
            let expected = OptionsError::Property { name: (*name).to_owned(), why };
            assert_eq!(producer(&with(name, "1")).unwrap_err(), expected);
            assert_eq!(reader(&with(name, "1")).unwrap_err(), expected);
        }
        let error = reader(&with("isolation.level", "read_uncommitted")).unwrap_err().to_string();
        assert!(error.contains("`isolation.level`"), "{error}");
    }

    #[test]
    fn other_settings_are_passed_through_before_our_own_defaults() {
        let options = with("sasl.mechanism", "SCRAM-SHA-512");
        assert_eq!(producer(&options).unwrap().get("sasl.mechanism"), Some("SCRAM-SHA-512"));
        assert_eq!(reader(&options).unwrap().get("sasl.mechanism"), Some("SCRAM-SHA-512"));
        assert_eq!(admin(&options, BROKER).unwrap().get("sasl.mechanism"), Some("SCRAM-SHA-512"));
        for name in ["linger.ms", "socket.timeout.ms", "client.id", "batch.size", "topic.metadata.propagation.max.ms"] {
            assert_eq!(producer(&with(name, "5")).unwrap().get(name), Some("5"));
        }
        assert_eq!(reader(&with("fetch.queue.backoff.ms", "5")).unwrap().get("fetch.queue.backoff.ms"), Some("5"));
        assert_eq!(producer(&with("queue.buffering.max.ms", "5")).unwrap().get("linger.ms"), None);
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
    fn kafka_is_given_up_on_before_the_caller_does() {
        for (caller, kafka) in [(10_000, 8_500), (5_000, 3_500), (2_000, 1_000), (100, 300)] {
            assert_eq!(message_timeout(Duration::from_millis(caller)), Duration::from_millis(kafka));
        }
    }

    #[test]
    fn brokers_may_come_later() {
        let config = super::reader(&with("client.id", "x"), "", Statistics::None, Pace::CatchUp).unwrap();
        assert_eq!(config.get("bootstrap.servers"), None);
    }
}

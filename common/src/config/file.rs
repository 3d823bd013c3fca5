//! What is read: every section of the file with its fields, defaults and bounds.
//!
//! A field's comment is its text in the schema and in `docs/configuration.md`, which a test holds
//! to this list (`MQGATE_WRITE=1 cargo test -p common config` writes both afresh).

use std::net::SocketAddr;
use std::path::PathBuf;

pub(super) use self::group::{Arbiter, Backoff, Format, Group};
use super::leaf::{Choice, Count, Flag, Leaf, List, Maybe, SecretText, Size, Span, Text, address};
use super::section::{Field, Given, Nested, Reader, Retired, Section, section};

mod group;

const NEEDS_KAFKA: Retired = Retired::Refused("needs the Kafka queue, which this version does not have yet");
const NEEDS_ZOOKEEPER: Retired = Retired::Refused("needs ZooKeeper, which this version does not have yet");

section! {
    /// The whole file.
    File {
        /// Where messages are kept.
        queue: Nested<Queue> = Nested::new(),
        /// Where cursors are kept, and who serves which partition.
        coordinator: Nested<Coordinator> = Nested::new(),
        /// Taking messages in.
        proxy: Nested<Proxy> = Nested::new(),
        /// Pushing messages out.
        pusher: Nested<Pusher> = Nested::new(),
        /// Who is called back, with what, and how. Groups never affect each other.
        consumer_groups: List<Nested<Group>> = List { of: Nested::new(), least: 0 },
    }
    retired {
        "$schema": Retired::Foreign("where editors find the schema, `configs/mqgate.schema.json`"),
        "zookeepers": NEEDS_ZOOKEEPER,
        "zk_path": NEEDS_ZOOKEEPER,
        "brokers": NEEDS_KAFKA,
        "callbacks": Retired::Refused("is called `consumer_groups` here"),
        "connection_pool_size": Retired::Ignored("a group has as many connections as attempts in flight, `worker_num`"),
        "stat_server_port": Retired::Ignored("`pusher.admin` is where metrics and state are served"),
        "log_file": Retired::Ignored("logs go to stderr; redirect it, and choose what is logged by RUST_LOG"),
        "log_collect_ratio": Retired::Ignored("every attempt is counted at `/metrics`; RUST_LOG chooses what is logged"),
    }
}

section! {
    /// One queue, named by its kind.
    Queue {
        /// A durable log in a folder of this machine, for one process.
        embedded: Nested<EmbeddedQueue> = Nested::new(),
    }
    retired {
        "kafka": NEEDS_KAFKA,
    }
}

section! {
    /// The embedded log.
    EmbeddedQueue {
        /// The folder it lives in, made when missing. Relative to where the program is started.
        dir: Text<PathBuf> = Text { what: "a folder's path", default: Some("./mqgate-data"), parse: folder },
        /// Partitions of a topic that comes into being with its first message.
        partitions: Count = Count { default: 4, min: 1, max: 1024 },
        /// Whether a message to an unknown topic makes the topic. Otherwise it is answered 404.
        auto_create_topics: Flag = Flag(true),
        /// How long messages are kept. What a group has not passed is spared, up to `retention_bytes`.
        retention: Span = Span::new("7d", "1s", "3660d"),
        /// How much is kept, over all topics. `null` is no bound but the disk.
        retention_bytes: Maybe<Size> = Maybe(Size { default: "1GiB", min: 1 << 20, max: 1 << 50 }, "null"),
        /// How many topics there may be.
        max_topics: Count = Count { default: 1000, min: 1, max: 100_000 },
    }
    retired {}
}

section! {
    /// One coordinator, named by its kind.
    Coordinator {
        /// A store in a folder of this machine, for one pusher process.
        embedded: Nested<EmbeddedCoordinator> = Nested::new(),
    }
    retired {
        "zookeeper": NEEDS_ZOOKEEPER,
    }
}

section! {
    /// The embedded coordinator.
    EmbeddedCoordinator {
        /// The folder it lives in; the queue's own unless given.
        dir: Maybe<Text<PathBuf>> = Maybe(Text { what: "a folder's path", default: None, parse: folder }, "the queue's"),
    }
    retired {}
}

section! {
    /// The HTTP server that takes messages in.
    Proxy {
        /// Where messages are POSTed. Port 0 picks a free one, which the log names.
        listen: Text<SocketAddr> = Text { what: "an address such as \"127.0.0.1:9090\"", default: Some("127.0.0.1:9090"), parse: address::parse },
        /// Metrics and health of a proxy process. `standalone` serves `pusher.admin` alone.
        admin: Text<SocketAddr> = Text { what: "an address such as \"127.0.0.1:9089\"", default: Some("127.0.0.1:9089"), parse: address::parse },
        /// What a client of `/v1` must bear. Needed where others than this machine reach the port.
        admin_token: Maybe<SecretText> = Maybe(SecretText, "null"),
        /// Whether anybody who reaches `listen` may produce; must be said when others than this machine do.
        allow_anonymous: Flag = Flag(false),
        /// How long a message may take to be acknowledged by the queue; past it the answer is 504.
        produce_timeout: Span = Span::new("5s", "10ms", "1h"),
        /// Key, value and headers of one message together; more is answered 413. The queue's own limit lies just above the bound.
        max_message_bytes: Size = Size { default: "1000000", min: 1, max: 31 << 20 },
        /// Requests being served at once; more are answered 503.
        max_in_flight_requests: Count = Count { default: 10_000, min: 1, max: 1_000_000 },
        /// Bytes of messages being served at once; more are answered 503.
        max_in_flight_bytes: Size = Size { default: "64MiB", min: 1, max: 1 << 40 },
        /// How long the head of a request may take.
        head_timeout: Span = Span::new("10s", "10ms", "1h"),
        /// How long the body of a request may take; of a batch, each line of it.
        body_timeout: Span = Span::new("30s", "10ms", "1h"),
        /// How long a connection may lie idle between two requests.
        idle_timeout: Span = Span::new("75s", "10ms", "1d"),
        /// How long open requests may take to end on SIGTERM.
        drain_timeout: Span = Span::new("25s", "1ms", "1h").or_zero(),
        /// Belongs to the Kafka queue: messages are sent as they are to the embedded one.
        compression: Choice<Kafka> = Choice { default: "none", values: &[
            ("none", Kafka::SameEmbedded), ("gzip", Kafka::Only), ("snappy", Kafka::Only), ("lz4", Kafka::Only), ("zstd", Kafka::Only),
        ] },
        /// How a key chooses its partition: as Kafka's Java client does. The others belong to the Kafka queue.
        partitioner: Choice<Kafka> = Choice { default: "murmur2_random", values: &[
            ("murmur2_random", Kafka::SameEmbedded), ("murmur2", Kafka::Only), ("consistent_random", Kafka::Only),
            ("consistent", Kafka::Only), ("fnv1a_random", Kafka::Only), ("fnv1a", Kafka::Only), ("random", Kafka::Only),
        ] },
        /// Belongs to the Kafka queue; `queue.embedded.auto_create_topics` is the embedded one's.
        auto_create_topics: Flag = Flag(false),
    }
    retired {}
}

/// What a choice of the Kafka queue means to the embedded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kafka {
    /// What it does anyway.
    SameEmbedded,
    Only,
}

section! {
    /// Pushing messages out, for all groups together.
    Pusher {
        /// Metrics, health, groups and topics. Port 0 picks a free one, which the log names.
        admin: Text<SocketAddr> = Text { what: "an address such as \"127.0.0.1:9091\"", default: Some("127.0.0.1:9091"), parse: address::parse },
        /// What a client of `/v1` must bear. Needed where others than this machine reach the port.
        admin_token: Maybe<SecretText> = Maybe(SecretText, "null"),
        /// This process's name among others.
        instance: Maybe<Text<String>> = Maybe(Text { what: "a name", default: None, parse: instance }, "host, process id and a random text"),
        /// After how long without a sign of life a process's partitions go to others.
        session_timeout: Span = Span::new("15s", "1s", "10m"),
        /// How long open attempts may take to end on SIGTERM.
        drain_timeout: Span = Span::new("25s", "1ms", "1h").or_zero(),
        /// Bytes of messages read but not finished, over all groups.
        max_buffered_bytes: Size = Size { default: "256MiB", min: 1 << 16, max: 1 << 44 },
    }
    retired {}
}

fn folder(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("a folder's path must not be empty; \".\" is the current one".to_owned()),
        _ if text.contains('\0') => Err("a path cannot contain NUL".to_owned()),
        _ => Ok(PathBuf::from(text)),
    }
}

fn instance(text: &str) -> Result<String, String> {
    let legal = (1..=255).contains(&text.len()) && !matches!(text, "." | "..") && text.chars().all(|c| c.is_ascii_graphic() && c != '/');
    if legal { Ok(text.to_owned()) } else { Err(format!("{text:?}: 1 to 255 of printable ASCII without blanks and '/'")) }
}

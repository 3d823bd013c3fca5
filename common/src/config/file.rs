//! What is read: every section of the file with its fields, defaults and bounds.
//!
//! A field's comment is its text in the schema and in `docs/configuration.md`, which a test holds
//! to this list (`MQGATE_WRITE=1 cargo test -p common config` writes both afresh).

use std::net::SocketAddr;
use std::path::PathBuf;

pub(super) use self::group::{Arbiter, Backoff, Format, Group};
use super::leaf::{Choice, Count, Flag, Leaf, List, Maybe, PropertyList, SecretText, Size, Span, Text, address, server};
use super::section::{Field, Given, Nested, Reader, Retired, Section, section};
use crate::coordinator::zookeeper::AclMode;
use crate::queue::kafka::{Compression, Partitioner};

mod group;

impl File {
    /// Whether it names servers for groups that name none.
    pub(super) fn names_servers(&self) -> bool {
        self.zookeepers.is_set() || self.zk_path.is_set()
    }
}

/// One entry may name several, as a connect string does.
type Servers = List<Text<Vec<String>>>;

const ZOOKEEPERS: Servers =
    List { of: Text { what: "a server such as \"127.0.0.1:2181\"", default: None, parse: server::zookeepers }, least: 1 };
const BROKERS: Servers = List { of: Text { what: "a broker such as \"127.0.0.1:9092\"", default: None, parse: server::brokers }, least: 1 };
const ZK_PATH: Text<String> = Text { what: "a path such as \"/kafka\"", default: None, parse: server::chroot };

section! {
    /// The whole file.
    File {
        /// The ensemble: its servers. Cursors are kept there, and Kafka's brokers are found there unless they are listed.
        zookeepers: Maybe<Servers> = Maybe(ZOOKEEPERS, "[\"127.0.0.1:2181\"]"),
        /// The path in it under which everything lies, Kafka's own nodes too.
        zk_path: Maybe<Text<String>> = Maybe(ZK_PATH, "\"/\""),
        /// Where messages are kept: one of the two. `standalone` has the embedded queue unless the file says otherwise, `proxy` and `pusher` have Kafka.
        queue: Nested<Queue> = Nested::new(),
        /// Where cursors are kept, and who serves which partition: one of the two. Beside the embedded queue the embedded one; beside Kafka, ZooKeeper unless the file says otherwise.
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
        "brokers": Retired::Refused("belongs in `queue.kafka`"),
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
        /// Apache Kafka, for any number of processes on many machines.
        kafka: Nested<KafkaQueue> = Nested::new(),
    }
    retired {}
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
    /// Kafka.
    KafkaQueue {
        /// Some brokers of the cluster; the others are learnt from them.
        brokers: Maybe<Servers> = Maybe(BROKERS, "those registered in `zookeepers`"),
        /// Settings of the Kafka client (librdkafka) for every cluster, such as `security.protocol`. Those on which promises rest are refused.
        properties: PropertyList = PropertyList,
    }
    retired {}
}

section! {
    /// One coordinator, named by its kind.
    Coordinator {
        /// A store in a folder of this machine, for one pusher process.
        embedded: Nested<EmbeddedCoordinator> = Nested::new(),
        /// Apache ZooKeeper at `zookeepers`, for any number of pushers that share the work.
        zookeeper: Nested<ZooKeeper> = Nested::new(),
    }
    retired {}
}

section! {
    /// The embedded coordinator.
    EmbeddedCoordinator {
        /// The folder it lives in; the embedded queue's own unless given.
        dir: Maybe<Text<PathBuf>> = Maybe(Text { what: "a folder's path", default: None, parse: folder }, "the queue's, else \"./mqgate-data\""),
    }
    retired {}
}

section! {
    /// ZooKeeper, for all groups together; a group may have an ensemble of its own.
    ZooKeeper {
        /// `user:password`, by which every connection authenticates itself.
        digest: Maybe<SecretText> = Maybe(SecretText, "null"),
        /// Who may do what with the nodes that are made: `open` everybody everything, as with the original; `creator` the owner of `digest` everything, others read.
        acl: Choice<AclMode> = Choice { default: "open", values: &[("open", AclMode::Open), ("creator", AclMode::Creator)] },
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
        /// How batches travel to Kafka and lie there.
        compression: Choice<Compression> = Choice { default: "none", values: Compression::ALL },
        /// How a key chooses its partition: as Kafka's Java client does. Producers of a topic must agree. The others belong to the Kafka queue.
        partitioner: Choice<Partitioner> = Choice { default: "murmur2_random", values: Partitioner::ALL },
        /// Whether a message to an unknown topic makes the topic in Kafka. `queue.embedded.auto_create_topics` is the embedded queue's.
        auto_create_topics: Flag = Flag(false),
    }
    retired {}
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

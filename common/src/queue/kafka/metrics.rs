//! What the Kafka backend counts. `cluster` is how the configuration names it: its brokers, or where
//! they register.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// A label, by its word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            const ALL: &[Self] = &[$(Self::$variant),+];

            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }
    };
}

words! {
    /// Which of librdkafka's clients.
    Role: Producer = "producer", Reader = "reader"
}

words! {
    /// Of a connection that was wanted.
    Connection: Up = "up", Down = "down"
}

words! {
    /// Why a reader was opened anew.
    Reopening:
    /// There were records ahead, and none came.
    StoodStill = "stood_still",
    /// A record came past its queue.
    Astray = "astray",
    /// Nobody had read what it had fetched, and the room was needed, or it did not catch up; now somebody does.
    GivenBack = "given_back",
    /// There were records ahead, and the fetch under way waited for other partitions.
    Behind = "behind",
    /// It was read to its end for a while.
    CaughtUp = "caught_up"
}

words! {
    /// Of a topic that was missing.
    Creation:
    Created = "created",
    Refused = "refused",
    /// Too many, too quickly.
    NotTried = "not_tried"
}

type Labels = Vec<(&'static str, String)>;
type Seconds = Gauge<f64, AtomicU64>;

/// Of every cluster in the process: registered once, handed to each queue.
#[derive(Clone, Default)]
pub struct KafkaMetrics {
    answers: Family<Labels, Gauge>,
    waiting_messages: Family<Labels, Gauge>,
    waiting_bytes: Family<Labels, Gauge>,
    prefetched_records: Family<Labels, Gauge>,
    prefetched_bytes: Family<Labels, Gauge>,
    readers: Family<Labels, Gauge>,
    stalled_readers: Family<Labels, Gauge>,
    reader_reopenings: Family<Labels, Counter>,
    topic_creations: Family<Labels, Counter>,
    connections: Family<Labels, Gauge>,
    connects: Family<Labels, Counter>,
    sent_bytes: Family<Labels, Counter>,
    received_bytes: Family<Labels, Counter>,
    request_errors: Family<Labels, Counter>,
    round_trip_seconds: Family<Labels, Seconds>,
    throttle_seconds: Family<Labels, Seconds>,
}

impl KafkaMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let all = metrics.clone();
        registry.register("kafka_answers", "1 while the cluster answers questions", all.answers);
        registry.register("kafka_waiting_messages", "Messages in the local queue or under way to Kafka", all.waiting_messages);
        registry.register("kafka_waiting_bytes", "The same in bytes", all.waiting_bytes);
        registry.register("kafka_prefetched_records", "Records fetched that no reader has taken yet", all.prefetched_records);
        registry.register("kafka_prefetched_bytes", "The same in bytes", all.prefetched_bytes);
        registry.register("kafka_readers", "Partitions that are being fetched, once for each of their readers", all.readers);
        registry.register("kafka_stalled_readers", "Readers that get nothing although there are records ahead", all.stalled_readers);
        registry.register("kafka_reader_reopenings", "Readers opened anew, by cause", all.reader_reopenings);
        registry.register("kafka_topic_creations", "Missing topics that were to be created, by outcome", all.topic_creations);
        registry.register("kafka_connections", "Connections to brokers that are wanted, by state", all.connections);
        registry.register("kafka_connects", "Connection attempts", all.connects);
        registry.register("kafka_sent_bytes", "Bytes sent to brokers", all.sent_bytes);
        registry.register("kafka_received_bytes", "Bytes received from brokers", all.received_bytes);
        registry.register("kafka_request_errors", "Requests that failed or were not answered in time", all.request_errors);
        let help = "99th percentile of the slowest broker in the last 5 s";
        registry.register("kafka_round_trip_seconds", help, all.round_trip_seconds);
        registry.register("kafka_throttle_seconds", "Longest throttling by a broker in the last 5 s", all.throttle_seconds);
        metrics
    }

    pub(super) fn of_cluster(&self, cluster: String) -> ClusterMetrics {
        let of = vec![("cluster", cluster.clone())];
        ClusterMetrics {
            answers: self.answers.get_or_create_owned(&of),
            readers: self.readers.get_or_create_owned(&of),
            stalled_readers: self.stalled_readers.get_or_create_owned(&of),
            all: self.clone(),
            cluster,
        }
    }
}

/// Of one cluster. Its series vanish with it.
pub(super) struct ClusterMetrics {
    pub(super) answers: Gauge,
    pub(super) readers: Gauge,
    pub(super) stalled_readers: Gauge,
    all: KafkaMetrics,
    cluster: String,
}

impl ClusterMetrics {
    fn labels(&self, more: &[(&'static str, &str)]) -> Labels {
        let more = more.iter().map(|(name, word)| (*name, (*word).to_owned()));
        std::iter::once(("cluster", self.cluster.clone())).chain(more).collect()
    }

    pub(super) fn reopened(&self, cause: Reopening) {
        self.all.reader_reopenings.get_or_create(&self.labels(&[("cause", cause.word())])).inc();
    }

    pub(super) fn creation(&self, outcome: Creation) {
        self.all.topic_creations.get_or_create(&self.labels(&[("outcome", outcome.word())])).inc();
    }

    pub(super) fn of_client(&self, role: Role) -> ClientMetrics {
        let all = &self.all;
        let (of_cluster, of) = (self.labels(&[]), self.labels(&[("client", role.word())]));
        let connections =
            |state: Connection| all.connections.get_or_create_owned(&self.labels(&[("client", role.word()), ("state", state.word())]));
        let (held, held_bytes) = match role {
            Role::Producer => (&all.waiting_messages, &all.waiting_bytes),
            Role::Reader => (&all.prefetched_records, &all.prefetched_bytes),
        };
        ClientMetrics {
            held: held.get_or_create_owned(&of_cluster),
            held_bytes: held_bytes.get_or_create_owned(&of_cluster),
            up: connections(Connection::Up),
            down: connections(Connection::Down),
            connects: all.connects.get_or_create_owned(&of),
            sent_bytes: all.sent_bytes.get_or_create_owned(&of),
            received_bytes: all.received_bytes.get_or_create_owned(&of),
            request_errors: all.request_errors.get_or_create_owned(&of),
            round_trip_seconds: all.round_trip_seconds.get_or_create_owned(&of),
            throttle_seconds: all.throttle_seconds.get_or_create_owned(&of),
        }
    }
}

impl Drop for ClusterMetrics {
    fn drop(&mut self) {
        let all = &self.all;
        let held = [&all.waiting_messages, &all.waiting_bytes, &all.prefetched_records, &all.prefetched_bytes];
        for family in [&all.answers, &all.readers, &all.stalled_readers].into_iter().chain(held) {
            family.remove(&self.labels(&[]));
        }
        for role in Role::ALL.iter().map(|role| ("client", role.word())) {
            for family in [&all.connects, &all.sent_bytes, &all.received_bytes, &all.request_errors] {
                family.remove(&self.labels(&[role]));
            }
            all.round_trip_seconds.remove(&self.labels(&[role]));
            all.throttle_seconds.remove(&self.labels(&[role]));
            for state in Connection::ALL {
                all.connections.remove(&self.labels(&[role, ("state", state.word())]));
            }
        }
        for cause in Reopening::ALL {
            all.reader_reopenings.remove(&self.labels(&[("cause", cause.word())]));
        }
        for outcome in Creation::ALL {
            all.topic_creations.remove(&self.labels(&[("outcome", outcome.word())]));
        }
    }
}

/// Of all clients of one kind. What they hold, and their connections, are summed.
pub(super) struct ClientMetrics {
    /// Messages of a producer, records of a reader.
    pub(super) held: Gauge,
    pub(super) held_bytes: Gauge,
    pub(super) up: Gauge,
    pub(super) down: Gauge,
    pub(super) connects: Counter,
    pub(super) sent_bytes: Counter,
    pub(super) received_bytes: Counter,
    pub(super) request_errors: Counter,
    /// Of the client that reported last.
    pub(super) round_trip_seconds: Seconds,
    pub(super) throttle_seconds: Seconds,
}

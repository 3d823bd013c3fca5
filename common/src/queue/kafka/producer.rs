//! Handing messages to librdkafka, and taking its reports.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::util::Timeout;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use super::context::Said;
use super::metrics::Role;
use super::native::{self, Persisted, persisted};
use super::options::OptionsError;
use super::outcome::{self, Verdict, verdict};
use super::settings::{Batching, producer as settings};
use super::site::Site;
use super::statistics::Statistics;
use crate::ids::{Offset, Partition, Topic};
use crate::queue::{NotWritten, ProduceError, Produced};
use crate::record::{Message, Payload};

pub(super) type Answer = oneshot::Sender<Result<Produced, ProduceError>>;

/// Who waits for a message. Travels with it through librdkafka.
pub(super) enum Waiting {
    For(Answer),
    /// ack=none
    Nobody,
}

impl Waiting {
    pub(super) fn tell(self, answer: Result<Produced, ProduceError>) {
        match (self, answer) {
            // Whoever waited may have gone away.
            (Self::For(sender), answer) => drop(sender.send(answer)),
            (Self::Nobody, Err(error)) => warn!(%error, "a message that was taken with ack=none is lost"),
            (Self::Nobody, Ok(_)) => {}
        }
    }
}

/// What a report leaves to be done outside of librdkafka's thread.
pub(super) enum FollowUp {
    /// As it was, to be sent in a batch of its own.
    Alone(Message, Waiting),
    /// Is the topic gone, or only the client's knowledge of it?
    AskForTopic {
        topic: Topic,
        partition: Option<Partition>,
        persisted: Persisted,
        waiting: Waiting,
    },
    TooLarge {
        topic: Topic,
        size: usize,
        waiting: Waiting,
    },
}

pub(super) struct Reports {
    said: Said,
    batching: Batching,
    follow_ups: mpsc::UnboundedSender<FollowUp>,
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.said.log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.said.error(error, reason);
    }

    fn stats_raw(&self, json: &[u8]) {
        self.said.stats_raw(json);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Waiting>;

    fn delivery(&self, result: &DeliveryResult<'_>, waiting: Box<Waiting>) {
        let (error, message) = match result {
            Ok(message) => {
                let partition = Partition(u32::try_from(message.partition()).unwrap_or(0));
                let offset = Offset(u64::try_from(message.offset()).unwrap_or(0));
                let timestamp = message.timestamp().to_millis().unwrap_or(0);
                return waiting.tell(Ok(Produced { partition, offset, timestamp }));
            }
            Err((error, message)) => (error, message),
        };
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        let topic = Topic::new(message.topic()).expect("a message was sent to a legal topic");
        let partition = u32::try_from(message.partition()).ok().map(Partition);
        let follow_up = match verdict(code, self.batching == Batching::Single) {
            Verdict::Tell => return waiting.tell(Err(self.explained(outcome::of(code, persisted(message), &topic)))),
            Verdict::Alone => FollowUp::Alone(copy(message, topic, partition), *waiting),
            Verdict::AskForTopic => FollowUp::AskForTopic { topic, partition, persisted: persisted(message), waiting: *waiting },
            Verdict::TooLarge => {
                let size = copy(message, topic.clone(), None).payload.size_bytes();
                FollowUp::TooLarge { topic, size, waiting: *waiting }
            }
        };
        if let Err(mpsc::error::SendError(follow_up)) = self.follow_ups.send(follow_up) {
            let (FollowUp::Alone(_, waiting) | FollowUp::AskForTopic { waiting, .. } | FollowUp::TooLarge { waiting, .. }) = follow_up;
            waiting.tell(Err(ProduceError::NotWritten(NotWritten::ShuttingDown, "the queue is closing".to_owned())));
        }
    }
}

impl Reports {
    /// "Timed out" alone helps nobody.
    fn explained(&self, error: ProduceError) -> ProduceError {
        let health = &self.said.site().health;
        match error {
            ProduceError::NotWritten(why @ NotWritten::Unavailable, reason) => ProduceError::NotWritten(why, health.with_heard(reason)),
            ProduceError::MaybeWritten(reason) => ProduceError::MaybeWritten(health.with_heard(reason)),
            other => other,
        }
    }
}

/// Of a message whose batch was refused: rare, so copied.
fn copy(message: &rdkafka::message::BorrowedMessage<'_>, topic: Topic, partition: Option<Partition>) -> Message {
    use rdkafka::message::Headers;
    let owned = bytes::Bytes::copy_from_slice;
    let headers = message.headers().map(|headers| {
        let header = |header: Header<'_, &[u8]>| crate::record::Header {
            name: header.key.into(),
            value: header.value.map(owned).unwrap_or_default(),
        };
        headers.iter().map(header).collect()
    });
    let payload = Payload { key: message.key().map(owned), value: message.payload().map(owned), headers: headers.unwrap_or_default() };
    Message { topic, partition, timestamp: message.timestamp().to_millis(), payload }
}

type Client = ThreadedProducer<Reports>;

/// One producer of librdkafka, made anew when it has failed for good.
pub(super) struct Lane {
    client: RwLock<Arc<Client>>,
    site: Arc<Site>,
    batching: Batching,
    follow_ups: mpsc::UnboundedSender<FollowUp>,
    /// The brokers that the client was told.
    told: Mutex<String>,
}

impl Lane {
    pub(super) fn start(site: &Arc<Site>, batching: Batching, follow_ups: mpsc::UnboundedSender<FollowUp>) -> Result<Self, OptionsError> {
        let brokers = site.brokers.list();
        let client = connect(site, batching, Statistics::Made, follow_ups.clone())?;
        let client = RwLock::new(Arc::new(client));
        Ok(Self { client, site: Arc::clone(site), batching, follow_ups, told: Mutex::new(brokers) })
    }

    pub(super) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Never waits. `waiting` comes back if the message was not taken.
    pub(super) fn send(&self, message: &Message, waiting: Waiting) -> Result<(), (RDKafkaErrorCode, Waiting)> {
        let (failed, waiting) = {
            // Held while it is sent: who replaces the client then knows that nobody is about to use it.
            let client = self.client.read().unwrap_or_else(PoisonError::into_inner);
            match send(&client, message, Box::new(waiting)) {
                Err((RDKafkaErrorCode::Fatal, waiting)) => (Arc::clone(&client), waiting),
                sent => return sent.map_err(|(code, waiting)| (code, *waiting)),
            }
        };
        self.replace(&failed);
        send(&self.client(), message, waiting).map_err(|(code, waiting)| (code, *waiting))
    }

    /// After a fatal error, which librdkafka's idempotent producer cannot recover from.
    fn replace(&self, failed: &Arc<Client>) {
        let mut client = self.client.write().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&client, failed) {
            return;
        }
        warn!("the Kafka producer has failed for good, and is replaced by a new one");
        self.put(&mut client, Statistics::Made);
    }

    fn put(&self, client: &mut Arc<Client>, statistics: Statistics) {
        match connect(&self.site, self.batching, statistics, self.follow_ups.clone()) {
            Ok(new) => {
                let old = std::mem::replace(client, Arc::new(new));
                // Its end takes a while.
                std::thread::spawn(move || drop(old));
            }
            Err(error) => warn!(%error, "a new Kafka producer cannot be made; it is tried again with the next message"),
        }
    }

    /// Goes on with a client that makes no statistics, once those of this one have become too large
    /// and nothing is under way: two clients at a time would not keep the order.
    pub(super) fn spare_statistics(&self) {
        if !self.client().context().said.is_too_large() {
            return;
        }
        let mut client = self.client.write().unwrap_or_else(PoisonError::into_inner);
        if client.in_flight_count() == 0 {
            info!("the Kafka producer knows of too many partitions for statistics, and makes none any more");
            self.put(&mut client, Statistics::None);
        }
    }

    /// Idempotent.
    pub(super) fn introduce(&self, brokers: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != brokers {
            native::add_brokers(self.client().client(), brokers);
            brokers.clone_into(&mut told);
        }
    }

    /// Waits until everything taken is written or given up, at most so long.
    pub(super) fn flush(&self, within: impl Into<Timeout>) {
        if self.client().flush(within).is_err() {
            warn!("Kafka has not acknowledged every message in time; what became of the rest is unknown");
        }
    }
}

fn connect(
    site: &Arc<Site>,
    batching: Batching,
    statistics: Statistics,
    follow_ups: mpsc::UnboundedSender<FollowUp>,
) -> Result<Client, OptionsError> {
    let config = settings(&site.options, &site.brokers.list(), batching, statistics)?;
    let reports = Reports { said: Said::of(site, Role::Producer, statistics), batching, follow_ups };
    Client::from_config_and_context(&config, reports).map_err(|error| OptionsError::Client(error.to_string()))
}

fn send(client: &Client, message: &Message, waiting: Box<Waiting>) -> Result<(), (RDKafkaErrorCode, Box<Waiting>)> {
    let Message { topic, partition, timestamp, payload } = message;
    let headers = (!payload.headers.is_empty()).then(|| {
        let all = OwnedHeaders::new_with_capacity(payload.headers.len());
        payload.headers.iter().fold(all, |all, header| all.insert(Header { key: &header.name, value: Some(&header.value[..]) }))
    });
    let record = BaseRecord {
        topic: topic.as_str(),
        partition: partition.map(|partition| i32::try_from(partition.0).unwrap_or(i32::MAX)),
        payload: payload.value.as_deref(),
        key: payload.key.as_deref(),
        timestamp: *timestamp,
        headers,
        delivery_opaque: waiting,
    };
    client.send(record).map_err(|(error, record)| (error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown), record.delivery_opaque))
}

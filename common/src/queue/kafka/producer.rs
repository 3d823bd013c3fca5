//! Handing messages to librdkafka, and taking its reports.

use std::sync::{Arc, PoisonError, RwLock};

use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::util::Timeout;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use super::context::log;
use super::native::{Persisted, persisted};
use super::options::{Batching, Options, OptionsError, producer as settings};
use super::outcome::{self, Verdict, verdict};
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
    batching: Batching,
    follow_ups: mpsc::UnboundedSender<FollowUp>,
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        warn!(target: "mqgate::kafka", %error, "Kafka producer: {reason}; it keeps trying");
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
            Verdict::Tell => return waiting.tell(Err(outcome::of(code, persisted(message), &topic))),
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
    options: Options,
    batching: Batching,
    follow_ups: mpsc::UnboundedSender<FollowUp>,
}

impl Lane {
    pub(super) fn start(options: &Options, batching: Batching, follow_ups: mpsc::UnboundedSender<FollowUp>) -> Result<Self, OptionsError> {
        let client = connect(options, batching, follow_ups.clone())?;
        Ok(Self { client: RwLock::new(Arc::new(client)), options: options.clone(), batching, follow_ups })
    }

    pub(super) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Never waits. `waiting` comes back if the message was not taken.
    pub(super) fn send(&self, message: &Message, waiting: Waiting) -> Result<(), (RDKafkaErrorCode, Waiting)> {
        let client = self.client();
        match send(&client, message, Box::new(waiting)) {
            Err((RDKafkaErrorCode::Fatal, waiting)) => {
                self.replace(&client);
                send(&self.client(), message, waiting).map_err(|(code, waiting)| (code, *waiting))
            }
            sent => sent.map_err(|(code, waiting)| (code, *waiting)),
        }
    }

    /// After a fatal error, which librdkafka's idempotent producer cannot recover from.
    fn replace(&self, failed: &Arc<Client>) {
        let mut client = self.client.write().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&client, failed) {
            return;
        }
        warn!("the Kafka producer has failed for good, and is replaced by a new one");
        match connect(&self.options, self.batching, self.follow_ups.clone()) {
            Ok(new) => {
                let old = std::mem::replace(&mut *client, Arc::new(new));
                // Its end takes a while.
                std::thread::spawn(move || drop(old));
            }
            Err(error) => warn!(%error, "a new Kafka producer cannot be made; it is tried again with the next message"),
        }
    }

    /// Waits until everything taken is written or given up, at most so long.
    pub(super) fn flush(&self, within: impl Into<Timeout>) {
        if self.client().flush(within).is_err() {
            warn!("Kafka has not acknowledged every message in time; what became of the rest is unknown");
        }
    }
}

fn connect(options: &Options, batching: Batching, follow_ups: mpsc::UnboundedSender<FollowUp>) -> Result<Client, OptionsError> {
    let config = settings(options, batching)?;
    let reports = Reports { batching, follow_ups };
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

//! What every test of delivery needs: a group, its delivery, and events.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use bytestring::ByteString;
use common::config::{GroupConfig, Overrides, Role, Serializer};
use common::coordinator::{Lease, LeaseHolder};
use common::ids::{Epoch, Offset, Partition, Topic, TopicId};
use common::queue::{Ack, CreateTopicError, Produce, Queue, QueueError, ReadError, Reader, TopicInfo, Watermarks};
use common::record::{Header, Message, Payload, Record, TimestampMs};
use engine::event::{Attempt, Event, Failure, Outcome};
use engine::options::EventTypes;
use engine::ports::{Decoded, Decoder, Processor};
use prometheus_client::registry::Registry;
use pusher::decode::{Delivered, Origin, RecordDecoder, SourcedRecord};
use pusher::delivery::{Delivery, DeliveryMetrics, Tls};
use tokio::sync::watch;

/// Also to a URL that a file may not have.
pub(crate) fn group(url: &str) -> GroupConfig {
    const FILE: &[u8] = br#"{"consumer_groups":[{"group":"g","url":"http://receiver/","topics":["t"],"timeout":"5s"}]}"#;
    let loaded = common::config::parse(Role::Standalone, "the test", FILE, &Overrides::default()).unwrap();
    GroupConfig { url: url.parse().unwrap(), ..loaded.config.groups.into_iter().next().unwrap() }
}

pub(crate) struct Bench {
    pub(crate) delivery: Delivery,
    pub(crate) lease: LeaseHolder,
    registry: Registry,
}

impl Bench {
    pub(crate) fn new(group: &GroupConfig) -> Self {
        Self::with(group, Arc::new(NoDeadLetters), &Tls::trusting([]).unwrap())
    }

    pub(crate) fn to(url: &str) -> Self {
        Self::new(&group(url))
    }

    pub(crate) fn with<B: Burial>(group: &GroupConfig, burial: Arc<B>, tls: &Tls) -> Self {
        let mut registry = Registry::default();
        let metrics = DeliveryMetrics::register(&mut registry);
        let (holder, lease) = Lease::new(true);
        let delivery = Delivery::new(group, Arc::new(DeadLettersOnly(burial)), lease, &metrics, tls).unwrap();
        Self { delivery, lease: holder, registry }
    }

    pub(crate) async fn process(&self, event: &Event<Delivered>) -> Outcome {
        self.attempt(event, 0).await
    }

    pub(crate) async fn attempt(&self, event: &Event<Delivered>, number: u32) -> Outcome {
        self.delivery.process(event, Attempt { number, round: 0, epoch: engine::ids::Epoch(9) }).await
    }

    /// Why one attempt failed.
    pub(crate) async fn failure(&self, event: &Event<Delivered>) -> Failure {
        match self.process(event).await {
            Outcome::Retry { failure, .. } => failure,
            other => panic!("a failed attempt, not {other:?}"),
        }
    }

    /// A sample of the registry, 0 if there is none.
    pub(crate) fn metric(&self, sample: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        found.map_or(0, |value| value.parse().unwrap())
    }
}

pub(crate) fn payload(key: Option<&str>, value: Option<&[u8]>, headers: &[(&str, &[u8])]) -> Payload {
    let header =
        |(name, value): &(&str, &[u8])| Header { name: ByteString::from((*name).to_owned()), value: Bytes::copy_from_slice(value) };
    Payload {
        key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())),
        value: value.map(Bytes::copy_from_slice),
        headers: headers.iter().map(header).collect(),
    }
}

pub(crate) fn decoded(serializer: Serializer, payload: Payload) -> Event<Delivered> {
    let decoder = RecordDecoder::new(serializer, prometheus_client::metrics::counter::Counter::default());
    let id = TopicId(uuid::Uuid::from_u128(7));
    let origin = Origin::new(&Topic::new("t").unwrap(), Some(id), "", Partition(3));
    let record = Record { offset: Offset(81), timestamp: 1_700_000_000_123, payload };
    match decoder.decode(SourcedRecord { origin, record }, &EventTypes::default()) {
        Decoded::Event(event) => event,
        Decoded::Skip { .. } => panic!("nothing is skipped"),
    }
}

pub(crate) fn event(value: &str) -> Event<Delivered> {
    decoded(Serializer::Raw, payload(Some("k"), Some(value.as_bytes()), &[]))
}

/// What delivery needs of a queue: a place for dead letters.
pub(crate) trait Burial: Send + Sync + 'static {
    fn produce(&self, message: Message) -> Produce;
}

/// For tests that write no dead letter.
pub(crate) struct NoDeadLetters;

impl Burial for NoDeadLetters {
    fn produce(&self, message: Message) -> Produce {
        panic!("no dead letter was expected: {message:?}")
    }
}

/// A queue of which nothing but `produce` may be used.
pub(crate) struct DeadLettersOnly<B>(pub(crate) Arc<B>);

fn unavailable() -> QueueError {
    QueueError::Unavailable("this queue is for dead letters alone".into())
}

#[async_trait]
impl<B: Burial> Queue for DeadLettersOnly<B> {
    fn produce(&self, message: Message, ack: Ack) -> Produce {
        assert_eq!(ack, Ack::All);
        self.0.produce(message)
    }

    async fn topics(&self) -> Result<Vec<TopicInfo>, QueueError> {
        Err(unavailable())
    }

    async fn topic(&self, _: &Topic) -> Result<Option<TopicInfo>, QueueError> {
        Err(unavailable())
    }

    async fn create_topic(&self, _: &Topic, _: u32) -> Result<TopicInfo, CreateTopicError> {
        Err(unavailable().into())
    }

    async fn delete_topic(&self, _: &Topic) -> Result<bool, QueueError> {
        Err(unavailable())
    }

    async fn watermarks(&self, _: &Topic, _: Partition) -> Result<Watermarks, QueueError> {
        Err(unavailable())
    }

    async fn offset_for_time(&self, _: &Topic, _: Partition, _: TimestampMs) -> Result<Offset, QueueError> {
        Err(unavailable())
    }

    async fn open(&self, _: &Topic, _: Partition, _: Offset, _: Epoch) -> Result<Box<dyn Reader>, ReadError> {
        Err(unavailable().into())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        watch::Sender::new(0).subscribe()
    }

    fn missing(&self) -> Vec<String> {
        Vec::new()
    }
}

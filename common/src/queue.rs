//! The queue seam: what mqgate needs of a message queue, and nothing that only one queue has.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use tokio::sync::{oneshot, watch};

use crate::ids::{Epoch, Offset, Partition, Topic, TopicId};
use crate::record::{Message, Record, TimestampMs};

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod embedded;
pub mod kafka;
pub mod shared;

/// A durable log of topics and partitions.
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Hands a message over without waiting. The message is written, or not, whether or not the
    /// returned future is awaited. Messages of one caller to one partition are written in call order.
    fn produce(&self, message: Message, ack: Ack) -> Produce;

    /// Every topic, by name.
    async fn topics(&self) -> Result<Vec<TopicInfo>, QueueError>;

    /// One topic; `None` if there is none. Answers within 2 s.
    async fn topic(&self, topic: &Topic) -> Result<Option<TopicInfo>, QueueError>;

    async fn create_topic(&self, topic: &Topic, partitions: u32) -> Result<TopicInfo, CreateTopicError>;

    /// `false` if there was none. Its records are gone; a later topic of that name has another id.
    async fn delete_topic(&self, topic: &Topic) -> Result<bool, QueueError>;

    async fn watermarks(&self, topic: &Topic, partition: Partition) -> Result<Watermarks, QueueError>;

    /// The first offset whose timestamp is at or after `time`; the end if there is none.
    async fn offset_for_time(&self, topic: &Topic, partition: Partition, time: TimestampMs) -> Result<Offset, QueueError>;

    /// Opens a reader. It may be dropped at any time.
    async fn open(&self, topic: &Topic, partition: Partition, from: Offset, epoch: Epoch) -> Result<Box<dyn Reader>, ReadError>;

    /// Changes when a topic appeared, went, or got partitions: a hint to read them afresh.
    fn changes(&self) -> watch::Receiver<u64>;

    /// What is missing before this queue can serve; empty when all is well. For `/readyz`.
    fn missing(&self) -> Vec<String>;
}

/// Reads one partition in offset order, and never drops a record.
#[async_trait]
pub trait Reader: Send {
    /// Waits until there is something after the last batch. At least one record however large,
    /// else at most about `max_bytes`. Cancel safe: a dropped call loses nothing.
    async fn next(&mut self, max_bytes: usize) -> Result<Batch, ReadError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub records: Vec<Record>,
    /// The position after everything that was fetched, delivered or not (control records,
    /// compaction). `records` may be empty while this moves.
    pub next_offset: Offset,
    /// One after the newest record known when the batch was read.
    pub end: Offset,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TopicInfo {
    pub topic: Topic,
    /// `None` where the queue has no ids.
    pub id: Option<TopicId>,
    pub partitions: u32,
}

/// First offset kept, and the offset the next record will get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    pub first: Offset,
    pub end: Offset,
}

/// When a message counts as accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ack {
    /// Replicated by all in-sync replicas, or synced to disk.
    #[default]
    All,
    /// In the local queue of this process; lost if it dies. Resolves with offset 0 and no meaning.
    None,
}

/// Where a message came to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced {
    pub partition: Partition,
    pub offset: Offset,
    pub timestamp: TimestampMs,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProduceError {
    #[error("topic {0} does not exist")]
    UnknownTopic(Topic),
    #[error("topic {topic} has {partitions} partitions, so there is no partition {partition}")]
    UnknownPartition { topic: Topic, partition: Partition, partitions: u32 },
    #[error("the message has {size} bytes, more than the topic's limit of {limit}")]
    TooLarge { size: usize, limit: usize },
    /// For good: repeating it changes nothing.
    #[error("the topic refuses this record: {0}")]
    RecordRefused(String),
    /// Certainly not written.
    #[error("not written: {1}")]
    NotWritten(NotWritten, String),
    /// No telling.
    #[error("may have been written: {0}")]
    MaybeWritten(String),
}

/// Why a message was certainly not written; each is worth repeating later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotWritten {
    Unavailable,
    LocalQueueFull,
    TooManyTopics,
    DiskFull,
    /// A write or sync failed; nothing is written until a restart.
    StorageFailed,
    ShuttingDown,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    #[error("topic {0} does not exist")]
    UnknownTopic(Topic),
    #[error("topic {0} has no partition {1}")]
    UnknownPartition(Topic, Partition),
    #[error("the queue does not answer: {0}")]
    Unavailable(String),
    #[error("the store failed: {0}")]
    Storage(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateTopicError {
    #[error("topic {} exists already, with {} partitions", .0.topic, .0.partitions)]
    Exists(TopicInfo),
    #[error("there are {0} topics already, and no more are allowed (max_topics)")]
    TooMany(u32),
    #[error("a topic has 1 to {max} partitions, not {asked}")]
    Partitions { asked: u32, max: u32 },
    #[error(transparent)]
    Queue(#[from] QueueError),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Retention or re-creation took what was asked for. Never answered by a jump.
    #[error("offset {asked} is outside of the log, which has {}..{}", .log.first, .log.end)]
    OutOfRange { asked: Offset, log: Watermarks },
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// A produce under way. Resolves once the queue has answered.
#[derive(Debug)]
pub struct Produce(State);

#[derive(Debug)]
enum State {
    Waiting(oneshot::Receiver<Result<Produced, ProduceError>>),
    Answered(Option<Result<Produced, ProduceError>>),
}

impl Produce {
    /// The sender's end answers; dropped without an answer means [`ProduceError::MaybeWritten`].
    pub fn pending() -> (oneshot::Sender<Result<Produced, ProduceError>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(State::Waiting(receiver)))
    }

    pub fn answered(answer: Result<Produced, ProduceError>) -> Self {
        Self(State::Answered(Some(answer)))
    }
}

impl Future for Produce {
    type Output = Result<Produced, ProduceError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Waiting(receiver) => {
                let answer = ready!(Pin::new(receiver).poll(cx));
                Poll::Ready(answer.unwrap_or_else(|_| Err(ProduceError::MaybeWritten("the queue went away".into()))))
            }
            State::Answered(answer) => Poll::Ready(answer.take().expect("a future is not polled after it has answered")),
        }
    }
}

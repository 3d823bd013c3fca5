//! The log: one topic, which may be created anew, and the queue that reads it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use uuid::Uuid;

use super::process::Host;
use super::truth::{at, key};
use super::world::Shared;
use crate::coordinator::Log;
use crate::ids::{Epoch, Offset, Partition, Topic, TopicId};
use crate::queue::{
    Ack, Batch, CreateTopicError, NotWritten, Produce, ProduceError, Queue, QueueError, ReadError, Reader, TopicInfo, Watermarks,
};
use crate::record::{Message, Payload, Record, TimestampMs};

/// So many records come at once.
const MAX_BATCH: u64 = 3;
const THOUGHT: Duration = Duration::from_millis(100);

#[derive(Clone, Default)]
pub(super) struct SimulatedLog {
    life: u128,
    pub(super) first: Vec<u64>,
    pub(super) end: Vec<u64>,
    /// Ends of the lives before.
    former: BTreeMap<TopicId, Vec<u64>>,
}

impl SimulatedLog {
    pub(super) fn new(ends: Vec<u64>) -> Self {
        Self { life: 1, first: vec![0; ends.len()], end: ends, former: BTreeMap::new() }
    }

    pub(super) fn topic_id(&self) -> TopicId {
        TopicId(Uuid::from_u128(self.life))
    }

    pub(super) fn partitions(&self) -> u32 {
        u32::try_from(self.end.len()).unwrap()
    }

    pub(super) fn ends(&self) -> Vec<Offset> {
        self.end.iter().copied().map(Offset).collect()
    }

    pub(super) fn of(&self, partition: usize) -> Log {
        Log { topic_id: Some(self.topic_id()), first: Offset(self.first[partition]), end: Offset(self.end[partition]), past_end: None }
    }

    pub(super) fn recreate(&mut self) {
        self.former.insert(self.topic_id(), self.end.clone());
        self.life += 1;
        self.first.fill(0);
        self.end.fill(0);
    }

    /// How far the topic reached; of one that was created anew, how far a reader may have come that did not notice.
    pub(super) fn end_of(&self, topic: Option<TopicId>, partition: usize) -> u64 {
        let end = |ends: &Vec<u64>| ends.get(partition).copied().unwrap_or(0);
        let since = topic.unwrap_or_else(|| self.topic_id());
        self.former.range(since..).map(|(_, ends)| end(ends)).fold(end(&self.end), u64::max)
    }

    /// What a record carries says of which life of the topic it is.
    pub(super) fn is_of_now(&self, value: &[u8]) -> bool {
        value == self.life.to_be_bytes()
    }

    fn info(&self) -> TopicInfo {
        TopicInfo { topic: at(0).topic, id: Some(self.topic_id()), partitions: self.partitions() }
    }

    fn watermarks(&self, partition: Partition) -> Result<Watermarks, QueueError> {
        let index = partition.0 as usize;
        match (self.first.get(index), self.end.get(index)) {
            (Some(first), Some(end)) => Ok(Watermarks { first: Offset(*first), end: Offset(*end) }),
            _ => Err(QueueError::UnknownPartition(at(0).topic, partition)),
        }
    }

    fn record(&self, offset: u64) -> Record {
        let payload = Payload {
            key: Some(Bytes::from(key(offset).to_string())),
            value: Some(Bytes::copy_from_slice(&self.life.to_be_bytes())),
            headers: Vec::new(),
        };
        Record { offset: Offset(offset), timestamp: 0, payload }
    }
}

/// One process's way to the log.
pub(super) struct SimulatedQueue {
    world: Shared,
    peer: usize,
    changes: watch::Receiver<u64>,
}

impl SimulatedQueue {
    pub(super) fn new(host: &Host) -> Self {
        let changes = host.world.lock().topic_changes.subscribe();
        Self { world: host.world.clone(), peer: host.peer, changes }
    }

    /// Some answers take a while, and are given by what there is then.
    async fn think(&self) {
        let number = {
            let mut world = self.world.lock();
            world.questions += 1;
            world.questions
        };
        if number % 4 == 3 {
            tokio::time::sleep(THOUGHT).await;
        }
    }
}

#[async_trait]
impl Queue for SimulatedQueue {
    fn produce(&self, _: Message, _: Ack) -> Produce {
        Produce::answered(Err(ProduceError::NotWritten(NotWritten::Unavailable, "nobody produces here".into())))
    }

    async fn topics(&self) -> Result<Vec<TopicInfo>, QueueError> {
        Ok(vec![self.world.lock().truth.log().info()])
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicInfo>, QueueError> {
        self.think().await;
        let info = self.world.lock().truth.log().info();
        Ok((info.topic == *topic).then_some(info))
    }

    async fn create_topic(&self, _: &Topic, _: u32) -> Result<TopicInfo, CreateTopicError> {
        Err(CreateTopicError::Queue(QueueError::Unavailable("nobody makes topics here".into())))
    }

    async fn delete_topic(&self, _: &Topic) -> Result<bool, QueueError> {
        Err(QueueError::Unavailable("nobody deletes topics here".into()))
    }

    /// Who is unable learns nothing about what it does not own, and so cannot claim it.
    async fn watermarks(&self, _: &Topic, partition: Partition) -> Result<Watermarks, QueueError> {
        self.think().await;
        let world = self.world.lock();
        if world.peers[self.peer].unable && !world.owns(self.peer, partition) {
            return Err(QueueError::Unavailable("the log does not answer".into()));
        }
        world.truth.log().watermarks(partition)
    }

    async fn offset_for_time(&self, topic: &Topic, partition: Partition, _: TimestampMs) -> Result<Offset, QueueError> {
        Ok(self.watermarks(topic, partition).await?.end)
    }

    async fn open(&self, topic: &Topic, partition: Partition, from: Offset, _: Epoch) -> Result<Box<dyn Reader>, ReadError> {
        let (world, topic) = (self.world.clone(), topic.clone());
        let (life, appended) = {
            let world = world.lock();
            (world.truth.log().life, world.appended.subscribe())
        };
        let reader = SimulatedReader { world, peer: self.peer, topic, life, partition, next: from, appended };
        reader.read()?;
        Ok(Box::new(reader))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    fn missing(&self) -> Vec<String> {
        Vec::new()
    }
}

struct SimulatedReader {
    world: Shared,
    peer: usize,
    topic: Topic,
    life: u128,
    partition: Partition,
    next: Offset,
    appended: watch::Receiver<u64>,
}

impl SimulatedReader {
    /// What is there, without going on. Of a topic that was created anew some queues tell their readers; in
    /// the others these find another log under its name.
    fn read(&self) -> Result<Batch, ReadError> {
        let mut world = self.world.lock();
        if let Some(left) = world.peers[self.peer].fail_reads.checked_sub(1) {
            world.peers[self.peer].fail_reads = left;
            return Err(QueueError::Unavailable("the log does not answer".into()).into());
        }
        let log = world.truth.log();
        let notices = self.partition.0.is_multiple_of(2);
        if self.life != log.life && notices {
            return Err(QueueError::UnknownTopic(self.topic.clone()).into());
        }
        let Watermarks { first, end } = log.watermarks(self.partition)?;
        if !(first..=end).contains(&self.next) {
            return Err(ReadError::OutOfRange { asked: self.next, log: Watermarks { first, end } });
        }
        let next_offset = Offset(end.0.min(self.next.0 + MAX_BATCH));
        let records = (self.next.0..next_offset.0).map(|offset| log.record(offset)).collect();
        Ok(Batch { records, next_offset, end })
    }
}

#[async_trait]
impl Reader for SimulatedReader {
    async fn next(&mut self, _: usize) -> Result<Batch, ReadError> {
        loop {
            self.appended.mark_unchanged();
            let batch = self.read()?;
            if !batch.records.is_empty() {
                self.next = batch.next_offset;
                return Ok(batch);
            }
            if self.appended.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

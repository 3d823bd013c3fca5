use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;
use crate::queue::embedded::{EmbeddedQueue, tests as embedded};
use crate::queue::{Ack, CreateTopicError, Produce, QueueError, TopicInfo, Watermarks};
use crate::record::{Message, Payload, Record, TimestampMs};

mod conformance {
    use super::*;

    crate::queue_conformance!(|| async {
        let (queue, folder) = Sharing::new();
        (queue as Arc<dyn Queue>, folder)
    });
}

const PATIENCE: Duration = Duration::from_secs(20);
const P0: Partition = Partition(0);
const PLENTY: usize = 1 << 20;

/// The embedded queue, whose every reader has another one beside it that nobody polls.
struct Sharing {
    queue: Arc<EmbeddedQueue>,
    readers: SharedReaders,
    beside: Mutex<Vec<Box<dyn Reader>>>,
}

impl Sharing {
    fn new() -> (Arc<Self>, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let queue = embedded::open(folder.path(), embedded::options());
        let readers = SharedReaders::new(queue.clone());
        (Arc::new(Self { queue, readers, beside: Mutex::default() }), folder)
    }

    async fn topic(&self) -> Topic {
        let topic = Topic::new("t").unwrap();
        self.queue.create_topic(&topic, 1).await.unwrap();
        topic
    }

    async fn write(&self, topic: &Topic, offsets: std::ops::Range<u64>, size_bytes: usize) {
        for offset in offsets {
            let mut value = offset.to_be_bytes().to_vec();
            value.resize(size_bytes.max(8), 0);
            let payload = Payload { value: Some(Bytes::from(value)), ..Payload::default() };
            let message = Message { topic: topic.clone(), partition: None, timestamp: None, payload };
            assert_eq!(self.queue.produce(message, Ack::All).await.unwrap().offset, Offset(offset));
        }
    }

    async fn shared(&self, topic: &Topic, partition: Partition, from: Offset) -> Result<Box<dyn Reader>, ReadError> {
        let id = self.queue.topic(topic).await.unwrap().and_then(|info| info.id);
        self.readers.open(Place { topic: topic.clone(), id, partition }, from, Epoch(1)).await
    }

    async fn open(&self, topic: &Topic, from: u64) -> Box<dyn Reader> {
        self.shared(topic, P0, Offset(from)).await.unwrap()
    }

    fn hubs(&self) -> usize {
        self.readers.hubs.count()
    }
}

#[async_trait]
impl Queue for Sharing {
    fn produce(&self, message: Message, ack: Ack) -> Produce {
        self.queue.produce(message, ack)
    }

    async fn topics(&self) -> Result<Vec<TopicInfo>, QueueError> {
        self.queue.topics().await
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicInfo>, QueueError> {
        self.queue.topic(topic).await
    }

    async fn create_topic(&self, topic: &Topic, partitions: u32) -> Result<TopicInfo, CreateTopicError> {
        self.queue.create_topic(topic, partitions).await
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<bool, QueueError> {
        self.queue.delete_topic(topic).await
    }

    async fn watermarks(&self, topic: &Topic, partition: Partition) -> Result<Watermarks, QueueError> {
        self.queue.watermarks(topic, partition).await
    }

    async fn offset_for_time(&self, topic: &Topic, partition: Partition, time: TimestampMs) -> Result<Offset, QueueError> {
        self.queue.offset_for_time(topic, partition, time).await
    }

    async fn open(&self, topic: &Topic, partition: Partition, from: Offset, _: Epoch) -> Result<Box<dyn Reader>, ReadError> {
        let beside = self.shared(topic, partition, from).await?;
        self.beside.lock().unwrap().push(beside);
        self.shared(topic, partition, from).await
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.queue.changes()
    }

    fn missing(&self) -> Vec<String> {
        self.queue.missing()
    }
}

async fn next(reader: &mut Box<dyn Reader>, max_bytes: usize) -> Vec<Record> {
    timeout(PATIENCE, reader.next(max_bytes)).await.unwrap().unwrap().records
}

/// Reads until `end`, in order from `from`.
async fn read_to(reader: &mut Box<dyn Reader>, mut from: u64, end: u64) {
    while from < end {
        for record in next(reader, PLENTY).await {
            assert_eq!(record.offset, Offset(from));
            assert_eq!(record.payload.value.unwrap()[..8], from.to_be_bytes());
            from += 1;
        }
    }
    assert_eq!(from, end);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_groups_are_fed_by_one_reader_and_one_alone_by_none() {
    let (queue, _folder) = Sharing::new();
    let topic = queue.topic().await;
    queue.write(&topic, 0..50, 8).await;
    let mut first = queue.open(&topic, 0).await;
    read_to(&mut first, 0, 50).await;
    assert_eq!(queue.hubs(), 0);
    let mut others = Vec::new();
    for _ in 0..99 {
        others.push(queue.open(&topic, 0).await);
    }
    for reader in &mut others {
        read_to(reader, 0, 50).await;
    }
    assert_eq!(queue.hubs(), 1);
    let waiting = others.into_iter().chain([first]).map(|mut reader| {
        tokio::spawn(async move {
            read_to(&mut reader, 50, 60).await;
            reader
        })
    });
    let waiting: Vec<_> = waiting.collect();
    queue.write(&topic, 50..60, 8).await;
    let mut all = Vec::new();
    for reader in waiting {
        all.push(timeout(PATIENCE, reader).await.unwrap().unwrap());
    }
    // The first one, which read alone, has found the others.
    queue.write(&topic, 60..61, 8).await;
    for reader in &mut all {
        read_to(reader, 60, 61).await;
    }
    assert_eq!(queue.hubs(), 1);
    drop(all);
    assert_eq!(queue.hubs(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_falls_behind_reads_by_itself_and_comes_back_when_it_is_near() {
    let (queue, _folder) = Sharing::new();
    let topic = queue.topic().await;
    let (mut quick, mut slow) = (queue.open(&topic, 0).await, queue.open(&topic, 0).await);
    queue.write(&topic, 0..1, 8).await;
    read_to(&mut quick, 0, 1).await;
    read_to(&mut slow, 0, 1).await;
    assert_eq!(queue.hubs(), 1);
    // More than a ring keeps.
    queue.write(&topic, 1..12, 1 << 20).await;
    read_to(&mut quick, 1, 12).await;
    assert_eq!(queue.hubs(), 1);
    read_to(&mut slow, 1, 12).await;
    assert_eq!(queue.hubs(), 2);
    // At the end, where the other one waits.
    assert!(futures_util::poll!(Box::pin(slow.next(PLENTY))).is_pending());
    assert_eq!(queue.hubs(), 1);
    queue.write(&topic, 12..14, 8).await;
    read_to(&mut quick, 12, 14).await;
    read_to(&mut slow, 12, 14).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_polled_holds_up_nobody() {
    let (queue, _folder) = Sharing::new();
    let topic = queue.topic().await;
    let (mut stuck, mut other) = (queue.open(&topic, 0).await, queue.open(&topic, 0).await);
    // It has begun to wait, and nobody asks it again.
    let mut asked = Box::pin(stuck.next(PLENTY));
    assert!(futures_util::poll!(&mut asked).is_pending());
    queue.write(&topic, 0..30, 1 << 20).await;
    read_to(&mut other, 0, 30).await;
    let first = timeout(PATIENCE, asked).await.unwrap().unwrap();
    assert_eq!(first.records[0].offset, Offset(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_topic_is_told_to_each_and_a_new_one_is_read_anew() {
    let (queue, _folder) = Sharing::new();
    let topic = queue.topic().await;
    let mut readers = [queue.open(&topic, 0).await, queue.open(&topic, 0).await, queue.open(&topic, 0).await];
    queue.queue.delete_topic(&topic).await.unwrap();
    for reader in &mut readers {
        let error = timeout(PATIENCE, reader.next(PLENTY)).await.unwrap().unwrap_err();
        assert_eq!(error, ReadError::Queue(QueueError::UnknownTopic(topic.clone())));
    }
    let topic = queue.topic().await;
    queue.write(&topic, 0..3, 8).await;
    let mut anew = [queue.open(&topic, 0).await, queue.open(&topic, 0).await];
    for reader in &mut anew {
        read_to(reader, 0, 3).await;
    }
    drop(readers);
}

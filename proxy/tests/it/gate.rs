//! A queue whose acknowledgements can be held back, and which can be told to refuse.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use common::ids::{Epoch, Offset, Partition, Topic};
use common::queue::{Ack, CreateTopicError, Produce, ProduceError, Queue, QueueError, ReadError, Reader, TopicInfo, Watermarks};
use common::record::{Message, TimestampMs};
use tokio::sync::watch;

/// Writes at once, and acknowledges when the gate is open.
pub(crate) struct Gate {
    queue: Arc<dyn Queue>,
    open: watch::Sender<bool>,
    refusal: Mutex<Option<ProduceError>>,
}

impl Gate {
    pub(crate) fn before(queue: Arc<dyn Queue>) -> Self {
        Self { queue, open: watch::Sender::new(true), refusal: Mutex::default() }
    }

    pub(crate) fn close(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// From now on every message is answered so.
    pub(crate) fn refuse(&self, error: Option<ProduceError>) {
        *self.refusal.lock().unwrap() = error;
    }
}

#[async_trait]
impl Queue for Gate {
    fn produce(&self, message: Message, ack: Ack) -> Produce {
        if let Some(error) = self.refusal.lock().unwrap().clone() {
            return Produce::answered(Err(error));
        }
        let produce = self.queue.produce(message, ack);
        if *self.open.borrow() {
            return produce;
        }
        let (answer, held) = Produce::pending();
        let mut open = self.open.subscribe();
        tokio::spawn(async move {
            let written = produce.await;
            open.wait_for(|open| *open).await.unwrap();
            let _ = answer.send(written);
        });
        held
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

    async fn open(&self, topic: &Topic, partition: Partition, from: Offset, epoch: Epoch) -> Result<Box<dyn Reader>, ReadError> {
        self.queue.open(topic, partition, from, epoch).await
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.queue.changes()
    }

    fn missing(&self) -> Vec<String> {
        self.queue.missing()
    }
}

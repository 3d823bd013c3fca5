//! The Kafka backend of the queue seam, on real brokers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::ids::Topic;
use common::queue::kafka::{KafkaQueue, Options};
use common::queue::{Ack, Batch, ProduceError, Produced, Queue, Reader};
use common::record::{Message, Payload, Record};
use integration_tests::kafka::{Kafka, Version};
use tokio::time::timeout;

mod conformance;
mod produce;
mod read;
mod trouble;

const PATIENCE: Duration = Duration::from_secs(20);

fn options(kafka: &Kafka) -> Options {
    Options::new(vec![kafka.brokers()])
}

fn queue(kafka: &Kafka) -> Arc<KafkaQueue> {
    KafkaQueue::start(options(kafka)).unwrap()
}

/// A name that no other test has.
fn fresh(name: &str) -> Topic {
    Topic::new(&format!("{name}-{}", uuid::Uuid::new_v4())).unwrap()
}

fn message(topic: &Topic, value: impl Into<Bytes>) -> Message {
    let payload = Payload { value: Some(value.into()), ..Payload::default() };
    Message { topic: topic.clone(), partition: None, timestamp: None, payload }
}

fn keyed(topic: &Topic, key: &str, value: impl Into<Bytes>) -> Message {
    let mut message = message(topic, value);
    message.payload.key = Some(Bytes::copy_from_slice(key.as_bytes()));
    message
}

async fn produce(queue: &KafkaQueue, message: Message) -> Result<Produced, ProduceError> {
    timeout(PATIENCE, queue.produce(message, Ack::All)).await.expect("every produce is answered in time")
}

async fn next(reader: &mut dyn Reader) -> Batch {
    timeout(PATIENCE, reader.next(1 << 20)).await.expect("something comes").unwrap()
}

/// Until the position after everything that was read is `end`.
async fn read_to(reader: &mut dyn Reader, end: u64) -> Vec<Record> {
    let mut records = Vec::new();
    loop {
        let batch = next(reader).await;
        records.extend(batch.records);
        if batch.next_offset.0 >= end {
            assert_eq!(batch.next_offset.0, end);
            return records;
        }
    }
}

//! The Kafka backend of the queue seam, on real brokers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::ids::Topic;
use common::queue::kafka::{BrokerSource, KafkaMetrics, KafkaQueue, Options};
use common::queue::{Ack, Batch, ProduceError, Produced, Queue, Reader};
use common::record::{Message, Payload, Record};
use common::telemetry::{Exposition, Metrics};
use integration_tests::kafka::{Kafka, Version};
use integration_tests::wait;
use tokio::time::timeout;

mod answers;
mod conformance;
mod create;
mod delivering;
mod moving;
mod outages;
mod posting;
mod produce;
mod read;
mod recreated;
mod secured;
mod serving;
mod trouble;

const PATIENCE: Duration = Duration::from_secs(20);

fn options(kafka: &Kafka) -> Options {
    at(kafka.brokers())
}

fn at(brokers: String) -> Options {
    Options::new(BrokerSource::Listed(vec![brokers]))
}

fn queue(kafka: &Kafka) -> Arc<KafkaQueue> {
    start(options(kafka))
}

fn start(options: Options) -> Arc<KafkaQueue> {
    KafkaQueue::start(options, &KafkaMetrics::default()).unwrap()
}

/// With what it counts.
fn start_counted(options: Options) -> (Arc<KafkaQueue>, Metrics) {
    let mut metrics = Metrics::new("test");
    let kafka = KafkaMetrics::register(metrics.registry());
    (KafkaQueue::start(options, &kafka).unwrap(), metrics)
}

/// The sum of all series of that name that have this text in their labels.
fn counted(metrics: &Metrics, name: &str, labels: &str) -> f64 {
    let text = metrics.encode(Exposition::Prometheus);
    let series = text.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(labels));
    series.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

async fn until_well(queue: &KafkaQueue) {
    wait::until("all is well", PATIENCE, async || queue.missing().is_empty().then_some(())).await;
}

/// What is missing, as soon as that says something of this.
async fn until_missing(queue: &KafkaQueue, what: &str) -> String {
    wait::until(what, PATIENCE, async || queue.missing().into_iter().find(|missing| missing.contains(what))).await
}

/// Until it works, however often it is refused before.
async fn until_produced(queue: &KafkaQueue, message: Message) -> Produced {
    wait::until("it works again", PATIENCE, async || produce(queue, message.clone()).await.ok()).await
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

//! Reading on after an outage, without anybody's help. Times are a tenth of what a network has.

use std::time::Instant;

use common::ids::{Epoch, Offset, Partition};
use integration_tests::kafka::Setup;
use integration_tests::relay::Flow;

use super::*;

const P0: Partition = Partition(0);

async fn relayed() -> Kafka {
    Kafka::start_with(Version::Four, Setup { relayed: true, ..Setup::default() }).await
}

/// Finds out a dead connection within about a second, not ten.
fn hasty(kafka: &Kafka) -> Options {
    let mut options = at(kafka.relayed_brokers());
    options.produce_timeout = Duration::from_secs(2);
    options.properties.insert("socket.timeout.ms".into(), "1000".into());
    options.properties.insert("socket.connection.setup.timeout.ms".into(), "1000".into());
    options
}

async fn with_reader(kafka: &Kafka, options: Options) -> (Arc<KafkaQueue>, Topic, Box<dyn Reader>) {
    let queue = start(options);
    let topic = fresh("outage");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    produce(&queue, message(&topic, "before")).await.unwrap();
    let mut reader = queue.open(&topic, P0, Offset(0), Epoch(1)).await.unwrap();
    read_to(&mut *reader, 1).await;
    (queue, topic, reader)
}

/// Once it is over: what is written then is read, soon, by the reader that was there all the time.
async fn goes_on(queue: &KafkaQueue, topic: &Topic, reader: &mut dyn Reader) {
    let over = Instant::now();
    let written = until_produced(queue, message(topic, "after")).await;
    read_to(reader, written.offset.0 + 1).await;
    println!("it goes on {:?} after the end of the outage", over.elapsed());
    assert!(over.elapsed() < Duration::from_secs(8), "{:?}", over.elapsed());
    until_well(queue).await;
}

/// Neither side is told that the connections are dead.
#[tokio::test]
async fn reading_goes_on_after_a_black_hole() {
    let kafka = relayed().await;
    let (queue, topic, mut reader) = with_reader(&kafka, hasty(&kafka)).await;
    kafka.relay().both(Flow::Drop);
    assert!(produce(&queue, message(&topic, "lost")).await.is_err());
    until_missing(&queue, &kafka.relayed_brokers()).await;
    // Longer than any connection is believed in.
    tokio::time::sleep(Duration::from_secs(3)).await;
    kafka.relay().both(Flow::Pass);
    goes_on(&queue, &topic, &mut *reader).await;
}

#[tokio::test]
async fn reading_goes_on_after_a_frozen_broker() {
    let kafka = relayed().await;
    let (queue, topic, mut reader) = with_reader(&kafka, hasty(&kafka)).await;
    kafka.freeze();
    assert!(produce(&queue, message(&topic, "perhaps")).await.is_err());
    until_missing(&queue, &kafka.relayed_brokers()).await;
    kafka.thaw();
    goes_on(&queue, &topic, &mut *reader).await;
}

#[tokio::test]
async fn reading_goes_on_after_connections_were_reset() {
    let kafka = relayed().await;
    let (queue, topic, mut reader) = with_reader(&kafka, hasty(&kafka)).await;
    for _ in 0..5 {
        kafka.relay().reset();
        goes_on(&queue, &topic, &mut *reader).await;
    }
}

/// One reader's connection swallows everything, and that of the questions does not.
#[tokio::test]
async fn a_reader_that_stands_still_with_records_ahead_is_counted_and_opened_anew() {
    let kafka = relayed().await;
    let mut options = at(kafka.relayed_brokers());
    options.watch_every = Duration::from_millis(500);
    // Nothing else shall find it out.
    options.properties.insert("socket.timeout.ms".into(), "60000".into());
    let (queue, metrics) = start_counted(options);
    let topic = fresh("stands-still");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    produce(&queue, message(&topic, "before")).await.unwrap();
    let mut well = queue.open(&topic, P0, Offset(0), Epoch(1)).await.unwrap();
    read_to(&mut *well, 1).await;
    until_well(&queue).await;
    let first = kafka.relay().accepted();
    // On a client of its own, since the first one reads this partition already.
    let mut stuck = queue.open(&topic, P0, Offset(0), Epoch(1)).await.unwrap();
    read_to(&mut *stuck, 1).await;
    kafka.relay().concern(first..kafka.relay().accepted());
    kafka.relay().both(Flow::Hold);
    produce(&queue, message(&topic, "after")).await.unwrap();
    read_to(&mut *well, 2).await;
    let reading = tokio::spawn(async move { read_to(&mut *stuck, 2).await });
    let stalled = async || (counted(&metrics, "mqgate_kafka_stalled_readers", "") > 0.0).then_some(());
    wait::until("it is counted", PATIENCE, stalled).await;
    assert_eq!(reading.await.unwrap()[0].payload.value.as_deref(), Some(&b"after"[..]));
    assert_eq!(counted(&metrics, "mqgate_kafka_reader_reopenings_total", "stood_still"), 1.0);
    let over = async || (counted(&metrics, "mqgate_kafka_stalled_readers", "") == 0.0).then_some(());
    wait::until("it is over", PATIENCE, over).await;
}

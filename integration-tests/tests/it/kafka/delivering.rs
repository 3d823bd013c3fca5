//! `mqgate pusher` on a Kafka whose log is not simply one record after the other, and one that has
//! trouble. Its cursors are in the embedded coordinator.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

use integration_tests::gateway::{Gateway, Role, Setup, group};
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::request::Seen;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A pusher of one group `g`, and the folder of its cursors.
fn pusher(queue: &Value, topic: &Topic, receiver: &Receiver, more: &Value) -> (Setup, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let groups = [group("g", topic.as_str(), &receiver.url(), more)];
    let setup = Setup { role: Role::Pusher, ..Setup::groups(groups) };
    let setup = setup.field("queue", json!({"kafka": queue})).field("coordinator", json!({"embedded": {"dir": folder.path()}}));
    (setup, folder)
}

fn at_brokers(brokers: &str) -> Value {
    json!({"brokers": [brokers]})
}

/// Each with its number as value, by a client that is not ours. Blocks.
fn write(config: &ClientConfig, topic: &Topic, numbers: Range<u64>, key: impl Fn(u64) -> String) {
    write_padded(config, topic, numbers, key, 0);
}

/// The same with so many blanks after the number, in small batches: a batch is fetched whole.
fn write_padded(config: &ClientConfig, topic: &Topic, numbers: Range<u64>, key: impl Fn(u64) -> String, blanks: usize) {
    let producer: BaseProducer = config.clone().set("batch.num.messages", "10").create().unwrap();
    for n in numbers {
        let (key, value) = (key(n), format!("{n}{:blanks$}", ""));
        producer.send(BaseRecord::to(topic.as_str()).key(&key).payload(&value)).unwrap();
        producer.poll(Duration::ZERO);
    }
    producer.flush(Duration::from_secs(20)).unwrap();
}

fn delivered(seen: &[Seen]) -> BTreeSet<u64> {
    seen.iter().filter(|seen| seen.succeeded()).map(Seen::offset).collect()
}

async fn until_cursor(gateway: &Gateway, at: u64) {
    let right = async || (gateway.try_group("g").await?["partitions"][0]["cursor"] == at).then_some(());
    wait::until(&format!("the cursor at {at}"), Duration::from_secs(30), right).await;
}

/// C26.
#[tokio::test]
async fn gaps_of_compaction_hold_no_cursor_back() {
    let kafka = Kafka::shared(Version::Four).await;
    let topic = fresh("compacted");
    let settings =
        [("cleanup.policy", "compact"), ("segment.ms", "1000"), ("min.cleanable.dirty.ratio", "0.01"), ("min.compaction.lag.ms", "0")];
    kafka.create_topic(topic.as_str(), 1, &settings).await;
    let queue = queue(&kafka);
    for key in ["a", "b", "a", "a", "c", "b", "b", "c", "d", "e"] {
        produce(&queue, keyed(&topic, key, "x")).await.unwrap();
    }
    read::until_compacted(&queue, &topic, 11, 6).await;
    let receiver = Receiver::start(|seen| match seen.offset() {
        3 => Answer::Status(200).after(Duration::from_secs(1)),
        _ => Answer::Status(200),
    })
    .await;
    // The window is of six records, however far apart their offsets are.
    let more = json!({"timeout": "5s", "commit_interval": "100ms", "max_in_flight_records": 6});
    let (setup, _folder) = pusher(&at_brokers(&kafka.brokers()), &topic, &receiver, &more);
    let mut gateway = setup.start().await;
    receiver.until_done(5, PATIENCE).await;
    // The first one is still under way.
    gateway.kill();
    let before = receiver.count();
    gateway.restart().await;
    until_cursor(&gateway, 11).await;
    let seen = receiver.seen();
    assert_eq!(delivered(&seen), BTreeSet::from([3, 6, 7, 8, 9, 10]));
    assert!(seen.len() - before <= 6, "{} attempts after the restart", seen.len() - before);
}

/// C28, without a pusher.
#[tokio::test]
async fn what_retention_took_while_nobody_ran_is_skipped_on_record() {
    let kafka = Kafka::shared(Version::Four).await;
    let (topic, receiver) = (fresh("retention"), Receiver::ok().await);
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    write(&kafka.client_config(), &topic, 0..500, |n| n.to_string());
    let (setup, _folder) = pusher(&at_brokers(&kafka.brokers()), &topic, &receiver, &json!({}));
    let mut gateway = setup.start().await;
    until_cursor(&gateway, 500).await;
    assert!(gateway.terminate(PATIENCE).await.success());
    write(&kafka.client_config(), &topic, 500..3_000, |n| n.to_string());
    kafka.delete_records(topic.as_str(), 0, 2_000).await;
    gateway.restart().await;
    until_cursor(&gateway, 3_000).await;
    let expected: BTreeSet<u64> = (0..500).chain(2_000..3_000).collect();
    assert_eq!(delivered(&receiver.seen()), expected);
    assert_eq!(gateway.metric("mqgate_skipped_records_total", &[("reason", "below_first")]).await, 1_500.0);
    assert!(gateway.log().contains("1500"), "it is in the log");
}

/// C28, under a pusher: its reader stands before the gap, since so much waits behind a record that fails.
#[tokio::test]
async fn what_retention_took_behind_a_record_in_retry_is_skipped_on_record() {
    let kafka = Kafka::shared(Version::Four).await;
    let topic = fresh("retention-retry");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    // Or all of it would have been fetched ahead.
    write_padded(&kafka.client_config(), &topic, 0..3_000, |n| n.to_string(), 4_000);
    let failing = |seen: &Seen| if seen.text().trim() == "1500" { Answer::Status(500) } else { Answer::Status(200) };
    let receiver = Receiver::start(failing).await;
    let more = json!({"failed_sleep": "200ms", "order": "partition", "max_in_flight_records": 100});
    let (setup, _folder) = pusher(&at_brokers(&kafka.brokers()), &topic, &receiver, &more);
    let gateway = setup.start().await;
    until_cursor(&gateway, 1_500).await;
    gateway.until_metric("mqgate_intake_blocked", &[("group", "g")], 1.0, PATIENCE).await;
    kafka.delete_records(topic.as_str(), 0, 2_000).await;
    receiver.script(|_| Answer::Status(200));
    until_cursor(&gateway, 3_000).await;
    let delivered = delivered(&receiver.seen());
    assert!(delivered.contains(&1_500) && (2_000..3_000).all(|offset| delivered.contains(&offset)));
    let skipped = 3_000 - u64::try_from(delivered.len()).unwrap();
    // Beside those that it had read already.
    assert!((1..500).contains(&skipped), "{skipped} skipped");
    assert_eq!(gateway.metric("mqgate_skipped_records_total", &[("group", "g")]).await, skipped as f64);
}

#[tokio::test]
async fn a_partition_that_appears_later_is_delivered_from_its_beginning() {
    let kafka = Kafka::shared(Version::Four).await;
    let (topic, receiver) = (fresh("grows"), Receiver::ok().await);
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    write(&kafka.client_config(), &topic, 0..100, |n| format!("k{n}"));
    // From its end: what was there before the group is not for it.
    let (setup, _folder) = pusher(&at_brokers(&kafka.brokers()), &topic, &receiver, &json!({"initial_from_oldest": false}));
    let gateway = setup.start().await;
    gateway.until_served("g", 1).await;
    write(&kafka.client_config(), &topic, 100..200, |n| format!("k{n}"));
    receiver.until_done(100, PATIENCE).await;
    kafka.add_partitions(topic.as_str(), 3).await;
    let began = Instant::now();
    write(&kafka.client_config(), &topic, 200..500, |n| format!("k{n}"));
    let seen = receiver.until_done(400, PATIENCE).await;
    println!("new partitions were picked up after {:?}", began.elapsed());
    let values: BTreeSet<u64> = seen.iter().map(|seen| seen.text().parse().unwrap()).collect();
    assert_eq!(values, (100..500).collect());
    let partitions: BTreeSet<u32> = seen.iter().map(Seen::partition).collect();
    assert_eq!(partitions, BTreeSet::from([0, 1, 2]), "the native client has used the new ones");
    gateway.until_caught_up("g", PATIENCE).await;
}

/// Finds out a dead connection in a second; a network has ten, and its outages are as much longer.
fn hasty(brokers: &str) -> Value {
    json!({"brokers": [brokers], "properties": {"socket.timeout.ms": 1000, "socket.connection.setup.timeout.ms": 1000}})
}

/// Some traffic, before and after, while twenty keys are in retry.
async fn goes_on_after(kafka: &Kafka, gateway: &Gateway, topic: &Topic, receiver: &Receiver, from: u64) {
    let over = Instant::now();
    write(&kafka.client_config(), topic, from..from + 100, key_of);
    let newest = |seen: &[Seen]| seen.iter().any(|seen| seen.succeeded() && seen.text() == (from + 79).to_string());
    receiver.until("delivery goes on", Duration::from_secs(30), newest).await;
    println!("delivery goes on {:?} after the end of the outage", over.elapsed());
    receiver.script(|_| Answer::Status(200));
    until_cursor(gateway, from + 100).await;
    receiver.script(fails_for_some);
}

fn key_of(number: u64) -> String {
    format!("{}{}", if number % 100 >= 80 { "fails" } else { "k" }, number % 20)
}

fn fails_for_some(seen: &Seen) -> Answer {
    let number: u64 = seen.text().parse().unwrap();
    if number % 100 >= 80 { Answer::Status(500) } else { Answer::Status(200) }
}

/// C36: with records in retry the broker is stopped, frozen, and behind a network that drops everything.
#[tokio::test]
async fn delivery_goes_on_after_each_kind_of_outage() {
    use integration_tests::kafka::Setup as KafkaSetup;
    use integration_tests::relay::Flow;
    let mut kafka = Kafka::start_with(Version::Four, KafkaSetup { relayed: true, ..KafkaSetup::default() }).await;
    let topic = fresh("outages");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    let receiver = Receiver::start(fails_for_some).await;
    let more = json!({"failed_sleep": "200ms"});
    let (setup, _folder) = pusher(&hasty(&kafka.relayed_brokers()), &topic, &receiver, &more);
    let gateway = setup.start().await;
    write(&kafka.client_config(), &topic, 0..100, key_of);
    receiver.until_done(80, PATIENCE).await;
    let relayed = kafka.relayed_brokers();

    kafka.stop().await;
    gateway.until_missing(&relayed, PATIENCE).await;
    kafka.restart().await;
    goes_on_after(&kafka, &gateway, &topic, &receiver, 100).await;

    kafka.freeze();
    gateway.until_missing(&relayed, PATIENCE).await;
    kafka.thaw();
    goes_on_after(&kafka, &gateway, &topic, &receiver, 200).await;

    kafka.relay().both(Flow::Drop);
    gateway.until_missing(&relayed, PATIENCE).await;
    kafka.relay().both(Flow::Pass);
    goes_on_after(&kafka, &gateway, &topic, &receiver, 300).await;
    assert_eq!(delivered(&receiver.seen()), (0..400).collect());
}

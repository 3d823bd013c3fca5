//! In the place of the original: its file, its cursors, its envelope, on Kafka with `ZooKeeper`; and the
//! same for those who have no `ZooKeeper`.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use integration_tests::cluster::Cluster;
use integration_tests::gateway::{Gateway, Role, Setup};
use integration_tests::kafka::{Kafka, Version};
use integration_tests::ledger::{Acked, judge};
use integration_tests::payloads::{Sample, sample};
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::wait;
use integration_tests::zookeeper::ZooKeeper;
use integration_tests::zookeeper::tool::Kind;
use serde_json::{Value, json};

mod file;

const COUNT: usize = 10_000;

/// As the original names a group.
fn md5_of(url: &str) -> String {
    integration_tests::ledger::hash(url.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Through the original's route; messages of one key one after the other, of different ones at once.
async fn post_all(producer: &Producer, count: usize) -> Vec<Acked> {
    let mut of_key: HashMap<String, Vec<Sample>> = HashMap::new();
    (0..count).map(|n| sample(n, 7)).for_each(|sample| of_key.entry(sample.key.clone()).or_default().push(sample));
    let keys = stream::iter(of_key.into_values()).map(|samples| async move {
        let mut acked: Vec<Acked> = Vec::with_capacity(samples.len());
        for sample in samples {
            acked.push(producer.original(&sample.key, sample.body).await.unwrap());
        }
        assert!(acked.is_sorted_by_key(|message| message.offset), "in the order of the POSTs");
        acked
    });
    keys.buffer_unordered(32).concat().await
}

/// All of it arrives, once, in order, byte for byte.
async fn assert_ten_thousand_arrive(proxy: &Gateway, topic: &str, receiver: &Receiver) {
    let acked = post_all(&Producer::new(proxy.api, topic), COUNT).await;
    let seen = receiver.until_done(COUNT, Duration::from_secs(40)).await;
    let verdict = judge(&acked, &seen);
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!((verdict.delivered, verdict.repeats, seen.len()), (COUNT, 0, COUNT));
    assert!(acked.iter().any(|a| a.partition != acked[0].partition), "keys spread over partitions");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_originals_file_carries_ten_thousand_real_payloads_and_leaves_its_cursors_at_the_end() {
    let kafka = Kafka::shared(Version::ThreeWithZooKeeper).await;
    let cluster = Cluster::on(kafka).at_the_root();
    let receiver = Receiver::ok().await;
    file::ensure_topic(&cluster).await;
    let literal = file::example(&cluster, &receiver);
    let mut pusher = Setup::file(Role::Pusher, &literal.text).start().await;
    // It reads /brokers/ids as well: no `brokers` anywhere.
    let proxy = Setup::file(Role::Proxy, "{}").flags(&["--zookeepers", &cluster.zookeeper().to_string()]).start().await;
    assert_ten_thousand_arrive(&proxy, "test", &receiver).await;
    cluster.until_cursors_at_end(&md5_of(&literal.url), "test", Duration::from_secs(5)).await;
    assert_eq!(pusher.terminate(Duration::from_secs(10)).await.code(), Some(0), "{}", pusher.log());
    cluster.until_cursors_at_end(&md5_of(&literal.url), "test", Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_the_original_left_is_where_delivery_starts() {
    let cluster = Cluster::shared().await.at_the_root();
    let receiver = Receiver::ok().await;
    let topic = cluster.topic("test", 2).await;
    let literal = file::example(&cluster, &receiver).with_topic(&topic);
    let group = md5_of(&literal.url);
    let proxy = cluster.proxy().start().await;
    let producer = Producer::new(proxy.api, &topic);
    let acked = post_all(&producer, 400).await;
    let cursors = BTreeMap::from([(0, 7), (1, 40)]);
    cursors.iter().for_each(|(partition, cursor)| cluster.put_cursor(&group, &topic, *partition, *cursor));
    let _pusher = Setup::file(Role::Pusher, &literal.text).start().await;
    let behind: Vec<Acked> = acked.into_iter().filter(|message| message.offset >= cursors[&message.partition]).collect();
    assert!(behind.len() < 400 && behind.len() > 300, "both partitions have records on both sides: {}", behind.len());
    let seen = receiver.until_done(behind.len(), Duration::from_secs(20)).await;
    let verdict = judge(&behind, &seen);
    verdict.assert_nothing_lost_or_reordered();
    cluster.until_cursors_at_end(&group, &topic, Duration::from_secs(5)).await;
    assert_eq!((verdict.repeats, receiver.count()), (0, behind.len()), "nothing below the cursors");
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_4_with_brokers_and_zookeeper_cursors_carries_ten_thousand_real_payloads() {
    let (kafka, zookeeper) = (Kafka::shared(Version::Four).await, ZooKeeper::start().await);
    let cluster = Cluster::of(kafka, zookeeper.addr(0)).at_the_root();
    let receiver = Receiver::ok().await;
    let topic = cluster.topic("four", 3).await;
    let (literal, brokers) = (file::example(&cluster, &receiver).with_topic(&topic), cluster.kafka.brokers());
    let _pusher = Setup::file(Role::Pusher, &literal.text).flags(&["--brokers", &brokers]).start().await;
    let proxy = Setup::file(Role::Proxy, "{}").flags(&["--brokers", &brokers]).start().await;
    assert_ten_thousand_arrive(&proxy, &topic, &receiver).await;
    cluster.until_cursors_at_end(&md5_of(&literal.url), &topic, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_4_without_zookeeper_carries_ten_thousand_real_payloads() {
    let kafka = Kafka::shared(Version::Four).await;
    let receiver = Receiver::ok().await;
    let topic = integration_tests::cluster::fresh("embedded");
    kafka.create_topic(&topic, 3, &[]).await;
    let dir = tempfile::tempdir().unwrap();
    let file = json!({
        "coordinator": {"embedded": {"dir": dir.path()}},
        "consumer_groups": [{"group": "g", "url": receiver.url(), "topics": [topic], "commit_interval": "100ms"}],
    });
    let mut pusher = Setup::file(Role::Pusher, file.to_string()).flags(&["--brokers", &kafka.brokers()]).start().await;
    let proxy = Setup::file(Role::Proxy, "{}").flags(&["--brokers", &kafka.brokers()]).start().await;
    assert_ten_thousand_arrive(&proxy, &topic, &receiver).await;
    pusher.until_caught_up("g", Duration::from_secs(5)).await;
    // The cursors are on disk, and nothing is delivered again.
    pusher.terminate(Duration::from_secs(10)).await;
    pusher.restart().await;
    let last = Producer::new(proxy.api, &topic).original("k", "last".into()).await.unwrap();
    let seen = receiver.until_done(COUNT + 1, Duration::from_secs(10)).await;
    assert_eq!(seen.last().unwrap().place(), (last.topic, last.partition, last.offset));
    pusher.until_caught_up("g", Duration::from_secs(5)).await;
    assert_eq!(receiver.count(), COUNT + 1);
}

/// What the original proxy wrote, ours beside it, and what is neither.
#[tokio::test(flavor = "multi_thread")]
async fn envelopes_of_the_original_are_opened_and_records_of_ours_pushed_as_they_are() {
    let cluster = Cluster::shared().await;
    let receiver = Receiver::ok().await;
    let topic = cluster.topic("envelopes", 1).await;
    let body = "n=8555&b=<\"é";
    let envelope = |more: Value| {
        let mut envelope = json!({"Topic": topic, "PartitionKey": "k", "TimeStamp": 1_450_000_000_123_i64, "Data": body});
        envelope.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        envelope.to_string()
    };
    let (whole, old) = (envelope(json!({"LogId": "log-7", "ContentType": "text/plain"})), envelope(json!({})));
    cluster.produce(&topic, &[(Some("k"), Some(&whole)), (Some("k"), Some(&old)), (Some("k"), Some("neither"))]).await;
    let proxy = cluster.proxy().start().await;
    Producer::new(proxy.api, &topic).original("k", old.clone().into()).await.unwrap();
    let group = json!({"group": "g", "url": receiver.url(), "topics": [topic], "serializer": "json", "initial_from_oldest": true});
    let pusher = cluster.pusher("a", [group]).start().await;
    let seen = receiver.until_done(4, Duration::from_secs(10)).await;
    let got: Vec<(&str, &str, &str)> =
        seen.iter().map(|s| (s.text(), s.header("X-Kmq-Logid").unwrap(), s.header("Content-Type").unwrap())).collect();
    let form = "application/x-www-form-urlencoded";
    assert_eq!(got, [(body, "log-7", "text/plain"), (body, "", form), ("neither", "", form), (&*old, "", form)]);
    assert_eq!(seen[0].header("X-Kmq-Timestamp"), Some("1450000000123"));
    assert_eq!(pusher.metric("mqgate_json_pushed_raw_total", &[("group", "g")]).await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_the_original_is_honoured_or_accepted_with_a_warning() {
    let cluster = Cluster::shared().await;
    cluster.register_brokers();
    let topic = cluster.topic("fields", 1).await;
    let receiver = Receiver::start(|s| Answer::Status(if s.text() == "BAD" { 500 } else { 200 })).await;
    let pusher = Setup::file(Role::Pusher, file::every_field(&cluster, &receiver, &topic)).start().await;
    for (what, instead) in file::IGNORED {
        let said = |line: &Value| line["level"] == "WARN" && line.to_string().contains(what) && line.to_string().contains(instead);
        assert!(pusher.log_lines().iter().any(said), "{what}: {instead}: {}", pusher.log());
    }
    let proxy = cluster.proxy().start().await;
    let producer = Producer::new(proxy.api, &topic);
    producer.original("k", "BAD".into()).await.unwrap();
    producer.original("other", "fine".into()).await.unwrap();
    let seen = receiver.until_done(1, Duration::from_secs(15)).await;
    let got: Vec<(&str, u64)> = seen.iter().map(|s| (s.text(), s.attempt())).collect();
    let expected = [("BAD", 0), ("BAD", 1), ("BAD", 2), ("BAD", 3), ("BAD", 4), ("fine", 0)];
    assert_eq!(got, expected, "retry_times, bypass_failed, and the order of `sequential`");
    assert_eq!(seen[5].header("Content-Type"), Some("application/x-www-form-urlencoded"), "serializer json");
    cluster.until_cursors_at_end(&md5_of(&receiver.url()), &topic, Duration::from_secs(5)).await;
}

/// Both would deliver everything.
#[tokio::test(flavor = "multi_thread")]
async fn an_original_that_still_runs_is_named_in_the_log_and_counted() {
    let cluster = Cluster::shared().await;
    let topic = cluster.topic("foreign", 1).await;
    let ids = cluster.path("/consumers/g/ids");
    let mut original = cluster.tool();
    original.put(&ids, "");
    let registration = json!({"pattern": "static", "subscription": {topic.clone(): 1}, "timestamp": 1_450_000_000, "version": 1});
    original.create(&format!("{ids}/old-host:4711"), &registration.to_string(), Kind::Ephemeral).unwrap();
    let group = json!({"group": "g", "url": "http://127.0.0.1:9/", "topics": [topic]});
    let pusher = cluster.pusher("ours", [group]).start().await;
    let named = |line: &Value| line["level"] == "WARN" && line.to_string().contains("old-host:4711");
    let said = || async { pusher.log_lines().iter().any(named).then_some(()) };
    wait::until("the foreign member in the log", Duration::from_secs(10), said).await;
    pusher.until_metric("mqgate_foreign_consumers", &[("group", "g")], 1.0, Duration::from_secs(10)).await;
    drop(original);
    pusher.until_metric("mqgate_foreign_consumers", &[("group", "g")], 0.0, Duration::from_secs(25)).await;
}

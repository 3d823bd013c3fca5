//! Records, dead letters and topics that are larger than a bound.

use integration_tests::kafka::{Kafka, Version};
use integration_tests::receiver::Answer;
use integration_tests::wait::until_right;
use rdkafka::message::{Headers, Message};
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_record_larger_than_the_bound_is_let_in_alone() {
    let policy = json!({"max_in_flight_bytes": "10KiB", "commit_interval": "100ms"});
    let scene = Scene::new(1, Receiver::ok().await, policy).await;
    let setup = scene.setup("a");
    let proxy = scene.cluster.proxy().start().await;
    let producer = Producer::new(proxy.api, &scene.topic);
    let mut acked = Vec::new();
    for size in [100, 500_000, 100, 900_000, 20_000] {
        acked.push(producer.plain(Some("k"), &[], vec![b'x'; size].into()).await.unwrap());
    }
    let _pusher = setup.start().await;
    let verdict = scene.settle(&acked).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.repeats, 0);
}

/// With all that is to be said about it the letter does not fit: key and value come first.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_too_large_for_its_topic_loses_headers_and_nothing_else() {
    const LIMIT: usize = 100_000;
    let receiver = Receiver::start(|seen| Answer::Status(if seen.body.len() > 1_000 { 500 } else { 200 })).await;
    let mut scene = Scene::new(1, receiver, json!({})).await;
    let letters = integration_tests::cluster::fresh("letters");
    scene.cluster.kafka.create_topic(&letters, 1, &[("max.message.bytes", &LIMIT.to_string())]).await;
    scene.policy = json!({"bypass_failed": true, "dead_letter_topic": letters, "commit_interval": "100ms"});
    let pusher = scene.pusher("a").await;
    let proxy = scene.cluster.proxy().start().await;
    let producer = Producer::new(proxy.api, &scene.topic);
    let filler = "h".repeat(4_000);
    let value = vec![b'x'; LIMIT - 1_500];
    producer.plain(Some("k"), &[("X-Kmq-Header-filler", &filler)], value.clone().into()).await.unwrap();
    let next = producer.plain(Some("k"), &[], "next".into()).await.unwrap();
    wait::until("the next of its key", PATIENCE, || async {
        scene.receiver.look(|seen| judge(std::slice::from_ref(&next), seen).lost.is_empty()).then_some(())
    })
    .await;
    scene.cluster.until_cursors_at_end("g", &scene.topic, PATIENCE).await;
    assert_eq!(pusher.metric("mqgate_bypassed_total", &[("group", "g")]).await, 1.0);
    let (key, kept, headers) = first_of(&scene.cluster.kafka, &letters).await;
    assert_eq!((key.as_slice(), kept.len()), (b"k".as_slice(), value.len()));
    assert!(headers.iter().any(|name| name == "mqgate-dlq-offset") && !headers.iter().any(|name| name == "filler"), "{headers:?}");
}

/// Key, value and the names of the headers.
async fn first_of(kafka: &Kafka, topic: &str) -> (Vec<u8>, Vec<u8>, Vec<String>) {
    let letter = kafka.first_record(topic, PATIENCE).await;
    let names = letter.headers().map(|headers| headers.iter().map(|header| header.key.to_owned()).collect());
    (letter.key().unwrap().to_vec(), letter.payload().unwrap().to_vec(), names.unwrap_or_default())
}

/// Hundreds of them have a record that fails; another group beside it notices nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_group_with_a_thousand_partitions_holds_up_nobody_and_recovers() {
    const PARTITIONS: i32 = 1_000;
    /// The broker takes its time to begin a log.
    const FAILING: i32 = 250;
    let kafka = Kafka::shared(Version::Four).await;
    let zookeeper = Cluster::shared().await;
    let cluster = Cluster::of(kafka.clone(), zookeeper.zookeeper());
    let (large, small) = (cluster.topic("large", PARTITIONS).await, cluster.topic("small", 4).await);
    let write = {
        let (config, large) = (kafka.client_config(), large.clone());
        move || {
            let producer: ThreadedProducer<_> = config.create().unwrap();
            for partition in 0..FAILING {
                producer.send(BaseRecord::to(&large).partition(partition).key("k").payload("x")).map_err(|(error, _)| error).unwrap();
            }
            producer.flush(2 * PATIENCE).unwrap();
        }
    };
    tokio::task::spawn_blocking(write).await.unwrap();
    let (dead, alive) = (Receiver::start(|_| Answer::Status(500)).await, Receiver::ok().await);
    let policy = json!({"commit_interval": "500ms"});
    let groups = [group("dead", &large, &dead.url(), &policy), group("alive", &small, &alive.url(), &policy)];
    let pusher = cluster.pusher("a", groups).start().await;
    until_right(2 * PATIENCE, || async {
        let owned = pusher.metric("mqgate_owned_partitions", &[("group", "dead")]).await;
        if owned == f64::from(PARTITIONS) { Ok(()) } else { Err(format!("{owned} partitions are owned")) }
    })
    .await;
    dead.until_count(FAILING as usize, PATIENCE).await;
    let proxy = cluster.proxy().start().await;
    let producer = Producer::new(proxy.api, &small);
    let mut slowest = Duration::ZERO;
    for n in 1..=40 {
        producer.plain(Some(&format!("k{n}")), &[], n.to_string().into()).await.unwrap();
        let acked = std::time::Instant::now();
        alive.until_done(n, PATIENCE).await;
        slowest = slowest.max(acked.elapsed());
    }
    assert!(slowest < Duration::from_secs(2), "a message of the other group took {slowest:?}");
    let resident = pusher.resident_bytes();
    assert!(resident < 400 << 20, "{resident} bytes");
    dead.script(|_| Answer::Status(200));
    let done = |seen: &[integration_tests::request::Seen]| {
        let partitions: std::collections::HashSet<u32> = seen.iter().filter(|seen| seen.succeeded()).map(|seen| seen.partition()).collect();
        partitions.len() == FAILING as usize
    };
    wait::until("all of the group that was dead", 2 * PATIENCE, || async { dead.look(done).then_some(()) }).await;
    let cursor = |partition| cluster.path(&format!("/consumers/dead/offsets/{large}/{partition}"));
    let cursors: Vec<String> = (0..FAILING).map(cursor).collect();
    let stored = || async { cluster.tool().get_all(&cursors).iter().all(|cursor| cursor.as_deref() == Some("1")).then_some(()) };
    wait::until("its cursors", PATIENCE, stored).await;
}

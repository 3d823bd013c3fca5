//! Times that only Kafka and `ZooKeeper` give a meaning to, measured (C69).

use std::collections::BTreeSet;
use std::sync::Arc;

use integration_tests::kafka::{Kafka, Version};
use integration_tests::load::Load;
use integration_tests::receiver::Answer;
use integration_tests::wait::assert_on_time;
use integration_tests::zookeeper::TICK_MS;
use serde_json::json;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_kafka_is_waited_for_as_long_as_produce_timeout_says() {
    let cluster = Cluster::on(Arc::new(Kafka::start(Version::ThreeWithZooKeeper).await));
    let topic = cluster.topic("frozen", 1).await;
    let mut proxies = Vec::new();
    for timeout_ms in [900_u32, 2_500] {
        let proxy = cluster.proxy().proxy("produce_timeout", json!(format!("{timeout_ms}ms"))).start().await;
        let producer = Producer::new(proxy.api, &topic);
        let warm = || async { producer.plain(None, &[], "warm".into()).await.ok() };
        wait::until("the first message", Duration::from_secs(20), warm).await;
        proxies.push((proxy, timeout_ms));
    }
    cluster.kafka.freeze();
    for (proxy, timeout_ms) in &proxies {
        let posted = Instant::now();
        let refused = Producer::new(proxy.api, &topic).plain(None, &[], "x".into()).await.unwrap_err();
        let (took, asked) = (posted.elapsed(), *timeout_ms * MS);
        // What was not even sent is known to be unwritten earlier.
        let latest = asked.mul_f64(1.1) + 300 * MS;
        assert!(took > asked / 2 && took < latest, "produce_timeout {asked:?}: answered after {took:?}");
        assert!(matches!(refused.status, Some(503 | 504)), "{refused:?}");
    }
    cluster.kafka.thaw();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_pusher_is_forgotten_after_its_session_timeout() {
    let scene = Scene::new(Cluster::shared().await, 1, Receiver::ok().await, json!({})).await;
    for timeout_ms in [2_000_u32, 6_000] {
        let instance = format!("of-{timeout_ms}");
        let setup = scene.cluster.pusher(&instance, [scene.group()]).pusher("session_timeout", json!(format!("{timeout_ms}ms")));
        let mut pusher = setup.start().await;
        scene.until_owned(1, &[&instance], Duration::from_secs(10)).await;
        pusher.kill();
        let killed = Instant::now();
        wait::until("it to be forgotten", Duration::from_secs(10), || async {
            scene.cluster.owners("g", &scene.topic).is_empty().then_some(())
        })
        .await;
        let (took, asked) = (killed.elapsed(), timeout_ms * MS);
        // It had been heard of within a third of the session before.
        let latest = asked.mul_f64(1.1) + Duration::from_millis(TICK_MS) + 300 * MS;
        assert!(took > asked / 2 && took < latest, "{asked:?}: forgotten after {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pusher_drains_as_long_as_the_file_says() {
    let scene = Scene::new(Cluster::shared().await, 1, Receiver::start(|_| Answer::Hang).await, json!({"timeout": "60s"})).await;
    let mut tries = 0;
    for drain_ms in [500_u32, 2_000] {
        let setup = scene.cluster.pusher("a", [scene.group()]).pusher("drain_timeout", json!(format!("{drain_ms}ms")));
        let mut pusher = setup.start().await;
        if tries == 0 {
            scene.post(1).await;
        }
        tries += 1;
        scene.receiver.until_count(tries, Duration::from_secs(10)).await;
        let asked = Instant::now();
        let status = pusher.terminate(Duration::from_secs(5)).await;
        // The attempt is cut on time; to leave takes some writes more, on a busy machine.
        let cut = || async { scene.receiver.seen()[tries - 1].broken_off };
        let cut = wait::until("the attempt to be cut", Duration::from_secs(1), cut).await;
        assert_on_time("pusher.drain_timeout", cut - asked, drain_ms * MS);
        assert_eq!(status.code(), Some(0), "{}", pusher.log());
        assert_eq!(scene.cluster.cursors("g", &scene.topic)[&0], 0, "what was cut is not done");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_are_stored_as_often_as_commit_interval_says() {
    let cluster = Cluster::shared().await;
    let topic = cluster.topic("interval", 1).await;
    let (proxy, receiver) = (cluster.proxy().start().await, Receiver::ok().await);
    let of = |name: &str| json!({"commit_interval": name});
    let groups = ["200ms", "1500ms"].map(|name| group(name, &topic, &format!("http://{}/{name}", receiver.addr), &of(name)));
    let _pusher = cluster.pusher("a", groups).start().await;
    let load = Load::start(Producer::new(proxy.api, &topic), 50, 10);
    receiver.until_count(10, Duration::from_secs(10)).await;
    let mut values = [BTreeSet::<u64>::new(), BTreeSet::new()];
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(6) {
        for (name, values) in ["200ms", "1500ms"].iter().zip(&mut values) {
            values.extend(cluster.cursors(name, &topic).get(&0));
        }
    }
    load.stop().await;
    let [often, seldom] = values.map(|values| values.len());
    assert!((3..=5).contains(&seldom), "{seldom} cursors in 6 s of 1.5 s each");
    assert!((10..=31).contains(&often), "{often} cursors in 6 s of 0.2 s each");
}

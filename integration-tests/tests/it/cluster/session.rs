//! Sessions that end while their process does not (C59).

use std::sync::Arc;

use integration_tests::cluster::{CursorWatch, OwnerWatch, SESSION, TAKEN_OVER};
use integration_tests::kafka::{Kafka, Version};
use integration_tests::load::Load;
use integration_tests::receiver::Answer;
use integration_tests::relay::{Flow, Relay};
use integration_tests::zookeeper::ZooKeeper;
use serde_json::json;

use super::*;

/// New session, claims and watches, after all is well again.
const RECOVERED: Duration = Duration::from_secs(8);

async fn scene(cluster: Cluster) -> Scene {
    let receiver = Receiver::start(|_| Answer::Status(200).after(3 * MS)).await;
    Scene::new(cluster, 6, receiver, json!({"commit_interval": "100ms", "timeout": "5s"})).await
}

fn watches(scene: &Scene) -> (CursorWatch, OwnerWatch) {
    (CursorWatch::start(&scene.cluster, "g", &scene.topic), OwnerWatch::start(&scene.cluster, "g", &scene.topic, 6))
}

/// Once an epoch of a partition has begun, there are no attempts of an earlier one.
fn assert_epochs_take_turns(seen: &[Seen]) {
    let mut begun: BTreeMap<u32, (u64, Instant)> = BTreeMap::new();
    for attempt in seen {
        let (newest, at) = *begun.entry(attempt.partition()).or_insert((attempt.epoch(), attempt.at));
        if attempt.epoch() > newest {
            begun.insert(attempt.partition(), (attempt.epoch(), attempt.at));
        }
        // On its way when the next one began.
        let late = attempt.at.saturating_duration_since(at);
        assert!(attempt.epoch() >= newest || late < 300 * MS, "{late:?} after a newer epoch: {:?}", attempt.headers);
    }
}

async fn until_connected(pusher: &Gateway, connected: f64) {
    pusher.until_metric("mqgate_zookeeper_connected", &[], connected, SESSION).await;
}

/// SIGSTOP for twice the session, with another pusher beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_pusher_loses_its_partitions_and_gets_its_share_back_by_itself() {
    let scene = scene(Cluster::shared().await).await;
    let (mut a, _b) = (scene.pusher("a").await, scene.pusher("b").await);
    scene.until_spread(6, &["a", "b"], TAKEN_OVER).await;
    let (watch, owners) = watches(&scene);
    let load = Load::start(scene.producer(), 50, 60);
    scene.receiver.until_count(100, Duration::from_secs(10)).await;
    a.freeze();
    let frozen = Instant::now();
    scene.until_owned(6, &["b"], TAKEN_OVER).await;
    tokio::time::sleep((2 * SESSION).saturating_sub(frozen.elapsed())).await;
    a.thaw();
    scene.until_spread(6, &["a", "b"], RECOVERED).await;
    assert!(a.runs());
    let count = scene.receiver.count();
    scene.receiver.until_count(count + 100, Duration::from_secs(10)).await;
    let verdict = scene.settle(&load.stop().await, Duration::from_secs(20)).await;
    verdict.assert_nothing_lost_or_reordered();
    watch.assert_none_fell().await;
    assert!(owners.assert_only_owners_wrote().await.longest_without < TAKEN_OVER);
}

/// One of two pushers is cut off from `ZooKeeper` for twice the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_pusher_that_is_cut_off_stops_in_time_and_joins_again_by_itself() {
    let scene = scene(Cluster::shared().await).await;
    let relay = Relay::start(scene.cluster.zookeeper()).await;
    let (mut a, _b) = (scene.pusher_by("a", relay.addr()).await, scene.pusher("b").await);
    let before = scene.until_spread(6, &["a", "b"], TAKEN_OVER).await;
    until_connected(&a, 1.0).await;
    let (watch, owners) = watches(&scene);
    let load = Load::start(scene.producer(), 50, 60);
    scene.receiver.until_count(100, Duration::from_secs(10)).await;
    relay.both(Flow::Drop);
    relay.reset();
    let cut = Instant::now();
    until_connected(&a, 0.0).await;
    let after = scene.until_owned(6, &["b"], TAKEN_OVER).await;
    tokio::time::sleep((2 * SESSION).saturating_sub(cut.elapsed())).await;
    // Under its epochs nothing was attempted after the end of its lease, two thirds of the session.
    let (lost, seen) = (before.iter().filter(|(p, owner)| *owner != &after[p]), scene.receiver.seen());
    for (partition, _) in lost {
        let of_a = seen.iter().filter(|s| s.partition() == *partition && s.at < cut).map(Seen::epoch).max().unwrap();
        let last = seen.iter().filter(|s| s.partition() == *partition && s.epoch() == of_a).map(|s| s.at).max().unwrap();
        let late = last.saturating_duration_since(cut + SESSION * 2 / 3);
        assert!(late < 300 * MS, "partition {partition} was served {late:?} after the end of the lease");
    }
    relay.both(Flow::Pass);
    relay.reset();
    scene.until_spread(6, &["a", "b"], RECOVERED).await;
    until_connected(&a, 1.0).await;
    assert!(a.runs());
    let verdict = scene.settle(&load.stop().await, Duration::from_secs(20)).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_epochs_take_turns(&scene.receiver.seen());
    watch.assert_none_fell().await;
    assert!(owners.assert_only_owners_wrote().await.longest_without < TAKEN_OVER);
}

/// The one server there is dies, and comes back later than a session lasts.
#[tokio::test(flavor = "multi_thread")]
async fn a_zookeeper_that_was_away_finds_all_partitions_served_again() {
    let (kafka, mut zookeeper) = (Kafka::shared(Version::Four).await, ZooKeeper::start().await);
    let scene = scene(Cluster::of(Arc::clone(&kafka), zookeeper.addr(0))).await;
    let (mut a, mut b) = (scene.pusher("a").await, scene.pusher("b").await);
    scene.until_spread(6, &["a", "b"], TAKEN_OVER).await;
    let load = Load::start(scene.producer(), 50, 60);
    scene.receiver.until_count(100, Duration::from_secs(10)).await;
    zookeeper.kill(0);
    tokio::time::sleep(SESSION + 2_000 * MS).await;
    zookeeper.restart(0).await;
    let back = Instant::now();
    let count = scene.receiver.count();
    scene.receiver.until_count(count + 100, TAKEN_OVER).await;
    scene.until_spread(6, &["a", "b"], TAKEN_OVER.saturating_sub(back.elapsed()) + RECOVERED).await;
    assert!(a.runs() && b.runs());
    scene.settle(&load.stop().await, Duration::from_secs(20)).await.assert_nothing_lost_or_reordered();
}

/// Two of three servers die, and come back later than a session lasts.
#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_that_was_without_its_majority_finds_all_partitions_served_again() {
    let (kafka, mut servers) = (Kafka::shared(Version::Four).await, ZooKeeper::ensemble(3).await);
    let scene = scene(Cluster::of(Arc::clone(&kafka), servers.addr(0))).await;
    let all = json!([servers.addr(0), servers.addr(1), servers.addr(2)]);
    let [mut a, mut b] =
        ["a", "b"].map(|instance| scene.cluster.pusher(instance, [scene.group()]).field("zookeepers", all.clone()).spawn());
    a.until_ready().await;
    b.until_ready().await;
    scene.until_spread(6, &["a", "b"], TAKEN_OVER).await;
    let load = Load::start(scene.producer(), 50, 60);
    scene.receiver.until_count(100, Duration::from_secs(10)).await;
    let before = scene.cluster.cursors("g", &scene.topic);
    servers.kill(1);
    servers.kill(2);
    let away = Instant::now();
    for pusher in [&a, &b] {
        until_connected(pusher, 0.0).await;
        pusher.until_missing("ZooKeeper", SESSION).await;
    }
    tokio::time::sleep((2 * SESSION).saturating_sub(away.elapsed())).await;
    servers.spawn(1);
    servers.restart(2).await;
    let back = Instant::now();
    let seen = scene.receiver.seen();
    let late = seen.iter().map(|s| s.at.saturating_duration_since(away)).max().unwrap();
    assert!(late < SESSION * 2 / 3 + 300 * MS, "an attempt {late:?} after the last word of the ensemble");
    let (watch, owners) = watches(&scene);
    let cursors = scene.cluster.cursors("g", &scene.topic);
    assert!(before.iter().all(|(partition, cursor)| cursors[partition] >= *cursor), "from {before:?} to {cursors:?}");
    let count = scene.receiver.count();
    scene.receiver.until_count(count + 100, TAKEN_OVER).await;
    eprintln!("100 delivered {:?} after the majority was back", back.elapsed());
    scene.until_spread(6, &["a", "b"], TAKEN_OVER.saturating_sub(back.elapsed()) + RECOVERED).await;
    for pusher in [&mut a, &mut b] {
        until_connected(pusher, 1.0).await;
        pusher.until_ready().await;
    }
    scene.settle(&load.stop().await, Duration::from_secs(20)).await.assert_nothing_lost_or_reordered();
    assert_epochs_take_turns(&scene.receiver.seen());
    watch.assert_none_fell().await;
    assert!(owners.assert_only_owners_wrote().await.longest_without < TAKEN_OVER);
}

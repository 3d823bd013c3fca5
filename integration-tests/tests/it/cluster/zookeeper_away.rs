//! `ZooKeeper` frozen or cut off: for less than a lease nobody notices, for longer delivery pauses and resumes.

use std::sync::Arc;

use integration_tests::cluster::{CursorWatch, OwnerWatch, SESSION, TAKEN_OVER};
use integration_tests::kafka::{Kafka, Version};
use integration_tests::load::Load;
use integration_tests::receiver::Answer;
use integration_tests::relay::{Flow, Relay};
use integration_tests::zookeeper::ZooKeeper;
use serde_json::json;

use super::*;

/// What a receiver would call a pause, of 50 messages a second.
const NOTICEABLE: Duration = Duration::from_millis(1_500);
/// The lease, two thirds of the session, and some time for what is under way.
const LEASE: Duration = Duration::from_millis(4_300);

async fn receiver() -> Receiver {
    Receiver::start(|_| Answer::Status(200).after(3 * MS)).await
}

fn policy() -> Value {
    json!({"commit_interval": "100ms", "timeout": "5s"})
}

/// One pusher behind a relay, with messages on their way.
async fn behind_a_relay() -> (Scene, Relay, Gateway, Load) {
    let scene = Scene::new(Cluster::shared().await, 4, receiver().await, policy()).await;
    let relay = Relay::start(scene.cluster.zookeeper()).await;
    let pusher = scene.pusher_by("a", relay.addr()).await;
    scene.until_owned(4, &["a"], TAKEN_OVER).await;
    let load = Load::start(scene.producer(), 50, 60);
    scene.receiver.until_count(100, Duration::from_secs(10)).await;
    (scene, relay, pusher, load)
}

/// Away for this long, as the receiver saw it.
async fn assert_unnoticed(scene: &Scene, load: Load, from: Instant) {
    let count = scene.receiver.count();
    scene.receiver.until_count(count + 150, Duration::from_secs(15)).await;
    let to = Instant::now();
    let verdict = scene.settle(&load.stop().await, Duration::from_secs(10)).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.repeats, 0);
    let seen = scene.receiver.seen();
    let gap = longest_gap(&seen, from, to);
    assert!(gap < NOTICEABLE, "nothing came for {gap:?}");
    for partition in 0..4 {
        let mut epochs: Vec<u64> = seen.iter().filter(|s| s.partition() == partition).map(Seen::epoch).collect();
        epochs.dedup();
        assert!(epochs.len() <= 1, "partition {partition} stayed where it was: {epochs:?}");
    }
}

/// That attempts ended with the lease; then how long after `back` the next one came.
async fn resumed_after(scene: &Scene, away: Instant, back: Instant, within: Duration) -> Duration {
    let seen = scene.receiver.seen();
    let late: Vec<Duration> = seen.iter().filter(|s| s.at > away + LEASE && s.at < back).map(|s| s.at - away).collect();
    assert!(late.is_empty(), "attempts {late:?} after the last word of ZooKeeper");
    let next = scene.receiver.until("the next attempt", within, |seen| seen.last().is_some_and(|s| s.at > back)).await;
    next.iter().find(|s| s.at > back).unwrap().at - back
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_do_not_notice_a_zookeeper_that_is_frozen_for_a_third_of_the_session() {
    let (scene, relay, _pusher, load) = behind_a_relay().await;
    let from = Instant::now();
    relay.both(Flow::Hold);
    tokio::time::sleep(SESSION / 3).await;
    relay.both(Flow::Pass);
    assert_unnoticed(&scene, load, from).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_do_not_notice_a_zookeeper_that_is_cut_off_for_a_third_of_the_session() {
    let (scene, relay, _pusher, load) = behind_a_relay().await;
    let from = Instant::now();
    relay.both(Flow::Hold);
    relay.reset();
    tokio::time::sleep(SESSION / 3).await;
    relay.both(Flow::Pass);
    assert_unnoticed(&scene, load, from).await;
}

/// The server went on meanwhile, so the old session is gone.
#[tokio::test(flavor = "multi_thread")]
async fn delivery_pauses_with_the_lease_and_resumes_within_5_s_of_the_way_to_zookeeper() {
    let (scene, relay, mut pusher, load) = behind_a_relay().await;
    let away = Instant::now();
    relay.both(Flow::Drop);
    relay.reset();
    pusher.until_missing("ZooKeeper", SESSION).await;
    tokio::time::sleep((2 * SESSION).saturating_sub(away.elapsed())).await;
    let back = Instant::now();
    relay.both(Flow::Pass);
    relay.reset();
    let took = resumed_after(&scene, away, back, Duration::from_secs(5)).await;
    eprintln!("resumed {took:?} after the way was open");
    pusher.until_ready().await;
    scene.settle(&load.stop().await, Duration::from_secs(20)).await.assert_nothing_lost_or_reordered();
}

/// C61: of what was written just before each cut, nobody knows whether it was.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_zookeeper_that_are_lost_again_and_again_cost_neither_a_repeat_nor_a_pause() {
    let (scene, relay, pusher, load) = behind_a_relay().await;
    let cursors = CursorWatch::start(&scene.cluster, "g", &scene.topic);
    let owners = OwnerWatch::start(&scene.cluster, "g", &scene.topic, 4);
    let (from, cpu) = (Instant::now(), pusher.cpu());
    for _ in 0..8 {
        // Several commits at 100 ms each are taken, and their answers are not.
        relay.to_client(Flow::Drop);
        tokio::time::sleep(350 * MS).await;
        relay.reset();
        relay.to_client(Flow::Pass);
        tokio::time::sleep(650 * MS).await;
    }
    let (took, used) = (from.elapsed(), pusher.cpu() - cpu);
    assert!(used < took / 4, "{used:?} of processor time in {took:?}: something turns in a circle");
    assert_unnoticed(&scene, load, from).await;
    cursors.assert_none_fell().await;
    assert_eq!(owners.assert_only_owners_wrote().await.longest_without, Duration::ZERO);
}

/// The server itself stood still: it says only later that the session is over, or takes it up again.
#[tokio::test(flavor = "multi_thread")]
async fn delivery_pauses_with_the_lease_and_resumes_after_a_frozen_zookeeper_thaws() {
    let (kafka, zookeeper) = (Kafka::shared(Version::Four).await, ZooKeeper::start().await);
    let scene = Scene::new(Cluster::of(Arc::clone(&kafka), zookeeper.addr(0)), 4, receiver().await, policy()).await;
    let mut pusher = scene.pusher("a").await;
    scene.until_owned(4, &["a"], TAKEN_OVER).await;
    let load = Load::start(scene.producer(), 50, 60);
    scene.receiver.until_count(100, Duration::from_secs(10)).await;
    zookeeper.freeze(0);
    let away = Instant::now();
    tokio::time::sleep(2 * SESSION).await;
    let back = Instant::now();
    zookeeper.thaw(0);
    let took = resumed_after(&scene, away, back, TAKEN_OVER).await;
    eprintln!("resumed {took:?} after the thaw");
    assert!(pusher.runs());
    scene.settle(&load.stop().await, Duration::from_secs(20)).await.assert_nothing_lost_or_reordered();
}

//! Replays of partitions that do nothing, and of a fleet that dies.

use std::collections::{BTreeMap, BTreeSet};

use integration_tests::receiver::Answer;

use super::*;

/// How often each offset of partition 0 was delivered.
fn deliveries(receiver: &Receiver) -> BTreeMap<u64, usize> {
    receiver.look(|seen| {
        let mut times = BTreeMap::new();
        seen.iter().filter(|seen| seen.succeeded()).for_each(|seen| *times.entry(seen.offset()).or_insert(0) += 1);
        times
    })
}

fn replay_to(topic: &str, offset: u64, id: &str) -> Value {
    json!({"offsets": {topic: {"0": offset}}, "id": id})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_partition_is_replayed_by_its_owner_whoever_was_asked() {
    let scene = Scene::new(1, Receiver::ok().await, json!({"commit_interval": "100ms"})).await;
    let _owner = scene.pusher("a").await;
    let other = scene.setup("b").start().await;
    let acked = scene.post(&scene.cluster, 0..30, 5).await;
    scene.settle(&acked).await.assert_nothing_lost_or_reordered();
    let answer = operate(&other, "groups/g/replay", &replay_to(&scene.topic, 12, "idle")).await.unwrap();
    assert_eq!((&answer["partitions"][0]["old"], &answer["partitions"][0]["new"]), (&json!(30), &json!(12)), "{answer}");
    scene.receiver.until_done(30 + 18, PATIENCE).await;
    scene.cluster.until_cursors_at_end("g", &scene.topic, PATIENCE).await;
    assert_eq!(deliveries(&scene.receiver), (0..30).map(|offset| (offset, if offset < 12 { 1 } else { 2 })).collect());
    let again = operate(&other, "groups/g/replay", &replay_to(&scene.topic, 12, "idle")).await.unwrap();
    assert_eq!(again["repeated"], true, "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_partition_is_replayed_when_it_is_resumed_and_not_before() {
    let scene = Scene::new(1, Receiver::ok().await, json!({"commit_interval": "100ms"})).await;
    let pusher = scene.pusher("a").await;
    let acked = scene.post(&scene.cluster, 0..30, 5).await;
    scene.settle(&acked).await.assert_nothing_lost_or_reordered();
    operate(&pusher, "groups/g/pause", &json!({})).await.unwrap();
    operate(&pusher, "groups/g/replay", &replay_to(&scene.topic, 12, "paused")).await.unwrap();
    let more = scene.post(&scene.cluster, 30..35, 5).await;
    // Time enough for the owner to have seen both.
    tokio::time::sleep(1_500 * MS).await;
    assert_eq!(scene.receiver.count(), 30, "nothing while it is paused");
    operate(&pusher, "groups/g/resume", &json!({})).await.unwrap();
    scene.receiver.until_done(30 + 18 + more.len(), PATIENCE).await;
    scene.cluster.until_cursors_at_end("g", &scene.topic, PATIENCE).await;
    let seen = scene.receiver.seen();
    let keys: BTreeSet<&str> = seen.iter().filter_map(|seen| seen.key()).collect();
    for key in keys {
        let offsets: Vec<u64> = seen[30..].iter().filter(|seen| seen.key() == Some(key)).map(|seen| seen.offset()).collect();
        assert!(offsets.is_sorted() && offsets.iter().all(|offset| *offset >= 12), "{key}: {offsets:?}");
    }
}

/// Both are killed right after the second was asked for: an answered replay stands, and the last one wins.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_replays_100_ms_apart_the_last_wins_although_owner_and_answerer_are_killed() {
    const MESSAGES: u64 = 200;
    let scene = Scene::new(1, Receiver::start(|_| Answer::Status(200).after(5 * MS)).await, json!({"commit_interval": "100ms"})).await;
    let mut owner = scene.pusher("a").await;
    let mut answerer = scene.setup("b").start().await;
    let acked = scene.post(&scene.cluster, 0..MESSAGES as usize, 10).await;
    scene.settle(&acked).await.assert_nothing_lost_or_reordered();
    let owners = scene.cluster.owners("g", &scene.topic);
    if owners[&0] == "b" {
        std::mem::swap(&mut owner, &mut answerer);
    }
    operate(&answerer, "groups/g/replay", &replay_to(&scene.topic, 150, "first")).await.unwrap();
    tokio::time::sleep(100 * MS).await;
    let answer = operate(&answerer, "groups/g/replay", &replay_to(&scene.topic, 40, "second")).await;
    let before = scene.receiver.count();
    owner.kill();
    answerer.kill();
    assert!(answer.is_some(), "it was answered");
    let _next = scene.pusher("c").await;
    let all = |seen: &[integration_tests::request::Seen]| {
        let again: BTreeSet<u64> = seen[MESSAGES as usize..].iter().filter(|seen| seen.succeeded()).map(|seen| seen.offset()).collect();
        (40..MESSAGES).all(|offset| again.contains(&offset))
    };
    scene.receiver.until("everything from the second replay on", TAKEN_OVER + PATIENCE, all).await;
    scene.cluster.until_cursors_at_end("g", &scene.topic, PATIENCE).await;
    let below = scene.receiver.look(|seen| seen[before..].iter().map(|seen| seen.offset()).filter(|offset| *offset < 40).count());
    assert_eq!(below, 0, "and nothing below it");
}

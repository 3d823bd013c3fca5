//! Partitions that go from one pusher to another, or must not.

use integration_tests::receiver::Answer;
use integration_tests::request::Seen;

use super::*;

const KEYS: usize = 16;

/// The attempts take long; meanwhile another pusher comes, which takes some partitions, and goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_lost_and_regained_while_its_attempts_hang_is_never_worked_on_twice_at_once() {
    let hangs = |seen: &Seen| seen.attempt() == 0 && seen.text().parse::<usize>().unwrap() < KEYS;
    let receiver = Receiver::start(move |seen| Answer::Status(200).after(if hangs(seen) { 9_000 * MS } else { MS })).await;
    let scene = Scene::new(4, receiver, json!({"timeout": "20s", "worker_num": 64, "commit_interval": "100ms"})).await;
    let a = scene.pusher("a").await;
    let mut acked = scene.post(&scene.cluster, 0..KEYS, KEYS).await;
    scene.receiver.until_count(KEYS, PATIENCE).await;
    let mut b = scene.setup("b").start().await;
    let lets_go = || async { a.log().lines().any(|line| line.contains("\"let_go\":2")).then_some(()) };
    wait::until("two partitions to be let go", PATIENCE, lets_go).await;
    let open = scene.receiver.look(|seen| seen.iter().filter(|seen| seen.ended().is_none()).count());
    assert_eq!(open, KEYS, "it waits for what is open");
    assert_eq!(b.terminate(PATIENCE).await.code(), Some(0));
    acked.extend(scene.post(&scene.cluster, KEYS..3 * KEYS, KEYS).await);
    let verdict = scene.settle(&acked).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.repeats, 0, "what it waited for was not made again");
}

/// One pusher's file has a topic that the other's has not.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_only_one_pusher_lists_is_served_by_that_one_alone() {
    let scene = Scene::new(2, Receiver::ok().await, json!({"commit_interval": "100ms"})).await;
    let second = scene.cluster.topic("second", 4).await;
    let mut both = group("g", &scene.topic, &scene.receiver.url(), &scene.policy);
    both["topics"] = json!([scene.topic, second]);
    let mut a = scene.cluster.pusher("a", [both]).start().await;
    let _b = scene.pusher("b").await;
    let proxy = scene.cluster.proxy().start().await;
    let producer = Producer::new(proxy.api, &second);
    let post = |numbers: std::ops::Range<usize>| {
        let producer = producer.clone();
        async move {
            let mut acked = Vec::new();
            for n in numbers {
                acked.push(producer.plain(Some(&format!("k{n}")), &[], n.to_string().into()).await.unwrap());
            }
            acked
        }
    };
    let mut acked = post(0..40).await;
    acked.extend(scene.post(&scene.cluster, 100..140, 40).await);
    scene.until_delivered(&acked).await.assert_nothing_lost_or_reordered();
    assert!(scene.cluster.owners("g", &second).values().all(|owner| owner == "a"), "{:?}", scene.cluster.owners("g", &second));
    a.kill();
    // The other one takes what it knows, and lets the rest be.
    scene.cluster.until_owned("g", &scene.topic, 2, &["b"], TAKEN_OVER).await;
    let later = post(40..60).await;
    let on = scene.post(&scene.cluster, 140..160, 20).await;
    scene.until_delivered(&on).await.assert_nothing_lost_or_reordered();
    assert!(scene.cluster.owners("g", &second).is_empty());
    a.spawn();
    acked.extend(later.into_iter().chain(on));
    let verdict = scene.until_delivered(&acked).await;
    verdict.assert_nothing_lost_or_reordered();
    scene.cluster.until_cursors_at_end("g", &second, PATIENCE).await;
}

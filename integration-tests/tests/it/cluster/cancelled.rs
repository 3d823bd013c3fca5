//! Attempts that are cut, and retries that are pending, when a partition moves.

use integration_tests::cluster::TAKEN_OVER;
use integration_tests::load::Load;
use integration_tests::receiver::Answer;
use integration_tests::relay::{Flow, Relay};
use serde_json::json;

use super::*;

const RECORDS: usize = 20;

/// Half of the messages hang until their attempt times out, the others fail at once and wait.
fn failing(seen: &Seen) -> Answer {
    if seen.text().parse::<usize>().unwrap().is_multiple_of(2) { Answer::Hang } else { Answer::Status(500) }
}

async fn given_up(pushers: &[&Gateway]) -> f64 {
    let mut sum = 0.0;
    for pusher in pushers {
        sum += pusher.metric("mqgate_bypassed_total", &[]).await;
    }
    sum
}

/// Waits until each message was tried twice more.
async fn until_tried(scene: &Scene) {
    let from = scene.receiver.count();
    let tried = |seen: &[Seen]| {
        let mut tries = BTreeMap::new();
        seen.iter().skip(from).for_each(|s| *tries.entry(s.place()).or_insert(0) += 1);
        tries.len() == RECORDS && tries.values().all(|n| *n >= 2)
    };
    scene.receiver.until("each to be tried", Duration::from_secs(20), tried).await;
}

/// C44: by revocation, by a lost `ZooKeeper`, by SIGTERM; inside the request and inside the pause.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_attempt_is_neither_done_nor_given_up() {
    let policy = json!({
        "retry_times": 1_000_000, "retry_backoff": {"initial": "300ms", "max": "300ms"}, "bypass_failed": true,
        "timeout": "1500ms", "worker_num": 32, "commit_interval": "100ms",
    });
    let scene = Scene::new(Cluster::shared().await, 4, Receiver::start(failing).await, policy).await;
    let relay = Relay::start(scene.cluster.zookeeper()).await;
    let mut a = scene.pusher_by("a", relay.addr()).await;
    let acked = scene.post(RECORDS).await;
    until_tried(&scene).await;
    // Some are taken from it.
    let mut b = scene.pusher("b").await;
    scene.until_spread(4, &["a", "b"], TAKEN_OVER).await;
    until_tried(&scene).await;
    // It loses all of them.
    relay.both(Flow::Hold);
    scene.until_owned(4, &["b"], TAKEN_OVER).await;
    relay.both(Flow::Pass);
    scene.until_spread(4, &["a", "b"], TAKEN_OVER).await;
    until_tried(&scene).await;
    assert_eq!(given_up(&[&a, &b]).await, 0.0);
    // It is stopped.
    assert_eq!(b.terminate(Duration::from_secs(10)).await.code(), Some(0), "{}", b.log());
    scene.until_owned(4, &["a"], TAKEN_OVER).await;
    until_tried(&scene).await;
    assert_eq!(given_up(&[&a]).await, 0.0);
    assert_eq!(a.terminate(Duration::from_secs(10)).await.code(), Some(0), "{}", a.log());
    assert!(scene.cluster.cursors("g", &scene.topic).values().all(|cursor| *cursor == 0), "none was committed");
    scene.receiver.script(|_| Answer::Status(200));
    let _c = scene.pusher("c").await;
    let verdict = scene.settle(&acked, Duration::from_secs(10)).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.repeats, 0);
}

const FAILING: usize = 200;

/// Of the group, on one pusher.
async fn pending(pusher: &Gateway) -> f64 {
    pusher.metric("mqgate_pending_retries", &[("group", "g")]).await
}

/// All of those that fail are pending, but for a few that are just being tried.
async fn assert_pending(pusher: &Gateway) {
    let pending = pending(pusher).await;
    assert!((FAILING as f64 * 0.68..=FAILING as f64).contains(&pending), "{pending} pending of {FAILING}");
}

fn is_failing(seen: &Seen) -> bool {
    seen.text().starts_with("fail")
}

/// For as long as 200 records fail, each a second after the last time: 200 are pending, there are 200
/// attempts a second, and nothing grows.
async fn assert_steady(scene: &Scene, pusher: &Gateway) {
    let tries = || scene.receiver.seen().iter().filter(|s| is_failing(s)).count();
    let (before, started, resident) = (tries(), Instant::now(), pusher.resident_bytes());
    while started.elapsed() < Duration::from_secs(8) {
        assert_pending(pusher).await;
        tokio::time::sleep(50 * MS).await;
    }
    let rate = (tries() - before) as f64 / started.elapsed().as_secs_f64();
    assert!((140.0..=205.0).contains(&rate), "{rate:.0} attempts a second of {FAILING} records");
    let now = pusher.resident_bytes();
    // What an allocator keeps is much of so small a process.
    assert!(now.saturating_sub(resident) <= resident / 20 + (4 << 20), "{resident} bytes at first, {now} after 8 s");
}

/// C41: what is pending is counted where it is, and nowhere once it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_records_in_retry_stay_two_hundred_and_go_with_their_partitions() {
    let receiver = Receiver::start(|s| Answer::Status(if is_failing(s) { 500 } else { 200 })).await;
    let policy = json!({"failed_sleep": "1s", "worker_num": 64, "timeout": "5s", "commit_interval": "200ms"});
    let scene = Scene::new(Cluster::shared().await, 6, receiver, policy).await;
    let mut a = scene.pusher("a").await;
    let producer = scene.producer();
    let mut acked = Vec::new();
    for n in 0..FAILING {
        acked.push(producer.plain(Some(&format!("failing{n}")), &[], format!("fail {n}").into()).await.unwrap());
    }
    let load = Load::start(scene.producer(), 100, 100);
    let tried = |seen: &[Seen]| seen.iter().filter(|s| is_failing(s)).count() >= 3 * FAILING;
    scene.receiver.until("three attempts of each", Duration::from_secs(20), tried).await;
    assert_steady(&scene, &a).await;
    // All of them go to another pusher: the first one's file does not name the topic any more.
    let b = scene.pusher("b").await;
    let other = scene.cluster.topic("other", 1).await;
    a.configure(|setup| setup.groups = vec![group("g", &other, &scene.receiver.url(), &scene.policy)]);
    a.reload();
    scene.until_owned(6, &["b"], TAKEN_OVER).await;
    a.until_metric("mqgate_pending_retries", &[("group", "g")], 0.0, Duration::from_secs(5)).await;
    wait::until("all to be pending there", Duration::from_secs(20), || async { (pending(&b).await >= FAILING as f64 * 0.9).then_some(()) })
        .await;
    assert_eq!(pending(&a).await, 0.0);
    scene.receiver.script(|_| Answer::Status(200));
    acked.extend(load.stop().await);
    let verdict = scene.settle(&acked, Duration::from_secs(20)).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.repeats, 0, "nothing that was done is repeated by the move");
    b.until_metric("mqgate_pending_retries", &[("group", "g")], 0.0, Duration::from_secs(3)).await;
}

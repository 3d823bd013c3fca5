//! Attempts that are cut, and retries that are pending, when a partition moves.

use integration_tests::cluster::TAKEN_OVER;
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

/// So many records fail all the time; a few of them are just being tried.
async fn until_pending(pusher: &Gateway, failing: usize) {
    let pending = || pusher.metric("mqgate_pending_retries", &[("group", "g")]);
    let most = failing as f64 / 2.0..=failing as f64;
    wait::until(&format!("{failing} to be pending"), Duration::from_secs(20), || async { most.contains(&pending().await).then_some(()) })
        .await;
    for _ in 0..20 {
        let pending = pending().await;
        assert!(pending <= failing as f64, "{pending} pending of {failing}");
        tokio::time::sleep(50 * MS).await;
    }
}

/// C41: what is pending is counted where it is, and nowhere once it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn pending_retries_are_counted_where_their_partitions_are() {
    const FAILING: usize = 200;
    let policy = json!({"retry_times": 1_000_000, "retry_backoff": {"initial": "1s", "max": "1s"}, "worker_num": 64, "timeout": "5s"});
    let scene = Scene::new(Cluster::shared().await, 6, Receiver::start(|_| Answer::Status(500)).await, policy).await;
    let a = scene.pusher("a").await;
    let acked = scene.post(FAILING).await;
    until_pending(&a, FAILING).await;
    let resident = a.resident_bytes();
    let b = scene.pusher("b").await;
    let owners = scene.until_spread(6, &["a", "b"], TAKEN_OVER).await;
    for (pusher, instance) in [(&a, "a"), (&b, "b")] {
        let mine = acked.iter().filter(|message| owners[&message.partition] == instance).count();
        assert!(mine > 0 && mine < FAILING, "{instance} has {mine}");
        until_pending(pusher, mine).await;
    }
    let grown = a.resident_bytes().saturating_sub(resident);
    assert!(grown < 20 << 20, "{grown} bytes more");
    scene.receiver.script(|_| Answer::Status(200));
    scene.settle(&acked, Duration::from_secs(20)).await.assert_nothing_lost_or_reordered();
    for pusher in [&a, &b] {
        pusher.until_metric("mqgate_pending_retries", &[("group", "g")], 0.0, Duration::from_secs(3)).await;
    }
}

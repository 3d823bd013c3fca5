//! A pusher that is killed in the middle of a drain, behind a record that has failed since its beginning.

use std::collections::BTreeSet;

use integration_tests::receiver::Answer;
use serde_json::json;

use super::*;

const RECORDS: usize = 120_000;
/// So many are done when it is killed.
const DONE: usize = 100_000;
const WORKERS: usize = 64;
const COMMIT_INTERVAL: Duration = Duration::from_millis(500);
/// From the moment that a commit took what was done until `ZooKeeper` wrote it, on a busy machine.
const SLOWEST_COMMIT: Duration = Duration::from_millis(400);
/// How much later than it should a commit may begin there.
const LATE: Duration = Duration::from_millis(1_500);

fn stuck(seen: &Seen) -> bool {
    seen.key() == Some("stuck")
}

/// A frontier alone would repeat all of it (see `C37`, `C39`).
#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_behind_a_stuck_record_only_the_last_commit_interval_is_repeated() {
    let receiver = Receiver::start(|s| Answer::Status(if stuck(s) { 500 } else { 200 })).await;
    let policy = json!({"worker_num": WORKERS, "commit_interval": "500ms", "timeout": "10s"});
    let cluster = Cluster::shared().await;
    let topic = cluster.topic("drain", 1).await;
    cluster.produce(&topic, &[(Some("stuck"), Some("x"))]).await;
    let keys: Vec<String> = (0..RECORDS).map(|n| format!("k{}", n % 5_000)).collect();
    for chunk in keys.chunks(20_000) {
        let records: Vec<_> = chunk.iter().map(|key| (Some(key.as_str()), Some("x"))).collect();
        cluster.produce(&topic, &records).await;
    }
    let setup = cluster.pusher("p", [group("g", &topic, &receiver.url(), &policy)]).pusher("session_timeout", json!("3s"));
    let mut pusher = setup.start().await;
    let started = Instant::now();
    receiver.until_count(DONE, Duration::from_secs(90)).await;
    pusher.kill();
    let killed = Instant::now();
    eprintln!("{} a second", receiver.count() as f64 / started.elapsed().as_secs_f64());
    assert_eq!(cluster.cursors("g", &topic)[&0], 0, "the stuck one holds the cursor");
    let done = cluster.tool().stat(&cluster.path(&format!("/consumers/g/done/{topic}/0"))).unwrap();
    let stored = Instant::now() - done.written_at.elapsed().unwrap_or_default();
    pusher.restart().await;
    // Each but the stuck one is there at least once.
    let all = || receiver.seen().iter().filter(|s| s.succeeded()).map(Seen::offset).collect::<BTreeSet<_>>().len() == RECORDS;
    wait::until("all the others", Duration::from_secs(60), async || (receiver.count() >= RECORDS && all()).then_some(())).await;
    receiver.script(|_| Answer::Status(200));
    cluster.until_cursors_at_end("g", &topic, Duration::from_secs(20)).await;
    assert_repeats_are_few(&receiver.seen(), stored, killed);
}

/// At most what finished since the last commit took what was done, which was a commit interval before the kill, and
/// what was in flight then.
fn assert_repeats_are_few(seen: &[Seen], stored: Instant, killed: Instant) {
    let verdict = judge(&[], seen);
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.delivered, RECORDS + 1);
    let since_stored = killed.saturating_duration_since(stored);
    let recent = seen.iter().filter(|s| s.at < killed && s.answered.is_some_and(|at| at > stored - SLOWEST_COMMIT)).count();
    let again = verdict.repeats;
    println!("{again} of {DONE} were delivered again; the last commit was written {since_stored:?} before the kill");
    assert!(since_stored <= COMMIT_INTERVAL + LATE, "the last commit was written {since_stored:?} before the kill");
    assert!(again <= recent + WORKERS, "{again} repeats, more than the {recent} since the last commit");
    let bad = integration_tests::ledger::repeated_too_much(seen, killed, since_stored + SLOWEST_COMMIT);
    assert!(bad.is_empty(), "THE GUARANTEE IS BROKEN: {} were stored, and delivered again: {:?}", bad.len(), bad.first());
}

//! Done sets that are too large to be written as often as `commit_interval` says.

use integration_tests::load::Load;
use integration_tests::receiver::Answer;
use serde_json::json;

use super::*;

const PARTITIONS: u32 = 8;
/// Every second one fails, so that what is done has gaps everywhere.
const RECORDS: usize = 80_000;
const COMMIT_INTERVAL: Duration = Duration::from_millis(10);
/// Stretched at least to this.
const STRETCHED: Duration = Duration::from_millis(30);
const LOADS: u32 = 8;
/// What a process may write of done sets in a second, and what a busy machine's clocks add.
const MAX_BYTES_A_SECOND: f64 = 1.3 * (1 << 20) as f64;

/// How often each done set was written, and how large all are together.
fn done_sets(scene: &Scene) -> (u64, u64) {
    let mut tool = scene.cluster.tool();
    let stat = |partition| tool.stat(&scene.cluster.path(&format!("/consumers/g/done/{}/{partition}", scene.topic))).unwrap();
    (0..PARTITIONS).map(stat).fold((0, 0), |(writes, bytes), stat| (writes + stat.writes, bytes + stat.bytes))
}

#[tokio::test(flavor = "multi_thread")]
async fn large_done_sets_stretch_the_commit_interval_and_a_metric_says_so() {
    let fails = |seen: &Seen| seen.text() == "fails";
    let receiver = Receiver::start(move |seen| Answer::Status(if fails(seen) { 500 } else { 200 })).await;
    let policy = json!({"worker_num": 64, "failed_sleep": "1h", "commit_interval": "10ms", "timeout": "10s"});
    let scene = Scene::new(Cluster::shared().await, PARTITIONS as i32, receiver, policy).await;
    let keys: Vec<String> = (0..RECORDS).map(|n| format!("k{n}")).collect();
    let texts = ["fails", "is fine"];
    let records: Vec<_> = keys.iter().enumerate().map(|(n, key)| (Some(key.as_str()), Some(texts[n % 2]))).collect();
    for chunk in records.chunks(16_000) {
        scene.cluster.produce(&scene.topic, chunk).await;
    }
    let pusher = scene.pusher("p").await;
    scene.receiver.until_count(RECORDS, Duration::from_secs(45)).await;
    // From now on every partition has something to store all the time.
    let loads: Vec<Load> = (0..LOADS).map(|_| Load::start(scene.producer(), 100, 1_000)).collect();
    let stretched =
        || async { (pusher.metric("mqgate_commit_interval_seconds", &[("group", "g")]).await >= STRETCHED.as_secs_f64()).then_some(()) };
    wait::until("the interval to be stretched", Duration::from_secs(20), stretched).await;
    let (since, (before, _)) = (Instant::now(), done_sets(&scene));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (after, bytes) = done_sets(&scene);
    let elapsed = since.elapsed();
    let written = (after - before) as f64 * bytes as f64 / f64::from(PARTITIONS) / elapsed.as_secs_f64();
    let unstretched = bytes as f64 / COMMIT_INTERVAL.as_secs_f64();
    println!("{bytes} bytes of done sets; {written:.0} written a second, {unstretched:.0} if every interval were kept");
    assert!(unstretched > 1.5 * MAX_BYTES_A_SECOND, "{bytes} bytes of done sets are too few to show anything");
    assert!(written <= MAX_BYTES_A_SECOND, "{written:.0} bytes a second");
    assert!(after > before, "nothing is stored any more");
    for load in loads {
        load.stop().await;
    }
}

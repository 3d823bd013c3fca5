//! Partitions that are added while messages flow (C30).

use std::collections::BTreeSet;

use integration_tests::cluster::TAKEN_OVER;
use integration_tests::load::Load;
use serde_json::json;

use super::*;

/// Within which new partitions are known, as `docs/kafka.md` says, and then claimed on a busy machine.
const PICKED_UP: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn new_partitions_are_shared_and_delivered_from_their_first_record() {
    // From the end: what was there before the group is not for it, and what is written first to a new partition is.
    let policy = json!({"initial_from_oldest": false, "commit_interval": "100ms"});
    let scene = Scene::new(Cluster::shared().await, 1, Receiver::ok().await, policy).await;
    scene.cluster.produce(&scene.topic, &[(Some("early"), Some("early")); 20]).await;
    let (_a, _b) = (scene.pusher("a").await, scene.pusher("b").await);
    scene.until_owned(1, &["a", "b"], TAKEN_OVER).await;
    let load = Load::start(scene.producer(), 50, 60);
    scene.receiver.until_count(50, Duration::from_secs(10)).await;
    scene.cluster.kafka.add_partitions(&scene.topic, 3).await;
    let added = Instant::now();
    let native: Vec<(String, String)> = (0..300).map(|n| (format!("n{n}"), format!("native {n}"))).collect();
    let records: Vec<_> = native.iter().map(|(key, value)| (Some(key.as_str()), Some(value.as_str()))).collect();
    scene.cluster.produce(&scene.topic, &records).await;
    let arrived = |seen: &[Seen]| seen.iter().filter(|s| s.text().starts_with("native")).map(Seen::place).collect::<BTreeSet<_>>();
    let seen = scene.receiver.until("all 300", PICKED_UP, |seen| arrived(seen).len() == 300).await;
    eprintln!("all 300 were there {:?} after the partitions", added.elapsed());
    let partitions: BTreeSet<u32> = arrived(&seen).iter().map(|(_, partition, _)| *partition).collect();
    assert_eq!(partitions, BTreeSet::from([0, 1, 2]), "the native client has used the new ones");
    scene.until_spread(3, &["a", "b"], PICKED_UP).await;
    let used = |seen: &[Seen]| seen.iter().filter(|s| s.key().is_some_and(|key| key.starts_with('k'))).any(|s| s.partition() > 0);
    scene.receiver.until("the proxy to use them", PICKED_UP, used).await;
    let verdict = scene.settle(&load.stop().await, Duration::from_secs(20)).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.repeats, 0);
    assert!(!scene.receiver.seen().iter().any(|s| s.text() == "early"));
}

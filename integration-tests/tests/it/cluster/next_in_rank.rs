//! A pusher that is in the fleet and cannot claim what is to be its own: its Kafka does not answer.

use integration_tests::cluster::{SESSION, TAKEN_OVER};
use integration_tests::kafka::{Kafka, Setup, Version};
use integration_tests::relay::Flow;
use serde_json::json;

use super::*;

const PARTITIONS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(20);
/// From when a partition has no owner until it is the next one's turn.
const TURN: Duration = SESSION.saturating_add(Duration::from_secs(5));
/// Longer than the time after which everybody looks at everything.
const STEADY: Duration = Duration::from_secs(11);

/// Of `a`, the brokers are behind the relay.
async fn scene() -> Scene {
    let setup = Setup { relayed: true, ..Setup::default() };
    let kafka = Kafka::start_with(Version::ThreeWithZooKeeper, setup).await;
    let policy = json!({"worker_num": 64, "timeout": "40s", "commit_interval": "100ms"});
    Scene::new(Cluster::on(kafka.into()), PARTITIONS as i32, Receiver::ok().await, policy).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_member_cannot_claim_the_next_in_rank_takes_and_keeps() {
    let scene = scene().await;
    let b = scene.pusher("b").await;
    scene.until_owned(PARTITIONS, &["b"], TAKEN_OVER).await;
    // What is open keeps `b` from letting go.
    scene.receiver.freeze();
    let mut acked = scene.post(40).await;
    until_busy(&b).await;
    let brokers = scene.cluster.kafka.relayed_brokers();
    let by_relay = scene.cluster.pusher("a", [scene.group()]).field("queue", json!({"kafka": {"brokers": [brokers]}}));
    let mut a = by_relay.start().await;
    wait::until("b to let two go", PATIENCE, || async { b.log().contains("\"let_go\":2").then_some(()) }).await;
    scene.cluster.kafka.relay().both(Flow::Hold);
    a.until_missing(&brokers, PATIENCE).await;
    scene.receiver.thaw();
    let vacant_at = scene.until_vacant().await;
    acked.extend(scene.post(40).await);
    scene.until_owned(PARTITIONS, &["b"], TURN + TAKEN_OVER).await;
    let waited = vacant_at.elapsed();
    assert!(waited + 500 * MS >= TURN && waited <= TURN + 3_500 * MS, "taken after {waited:?}, not {TURN:?}");
    scene.settle(&acked, PATIENCE).await;
    // The first is well again: nothing moves, since it would move for each of its troubles.
    scene.cluster.kafka.relay().both(Flow::Pass);
    a.until_ready().await;
    let well = Instant::now();
    while well.elapsed() < STEADY {
        let owners = scene.cluster.owners("g", &scene.topic);
        assert!(owners.len() == PARTITIONS as usize && owners.values().all(|owner| owner == "b"), "{owners:?} after {:?}", well.elapsed());
        tokio::time::sleep(100 * MS).await;
    }
    // Its node in the fleet is another one, and it has its share.
    assert_eq!(a.terminate(PATIENCE).await.code(), Some(0), "{}", a.log());
    a.restart().await;
    scene.until_spread(PARTITIONS, &["a", "b"], TAKEN_OVER).await;
    acked.extend(scene.post(40).await);
    let verdict = scene.settle(&acked, PATIENCE).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.repeats, 0);
}

/// Waits until every partition has attempts under way.
async fn until_busy(pusher: &Gateway) {
    wait::until("attempts in every partition", PATIENCE, || async {
        let group = pusher.group("g").await;
        let busy = |partition: &Value| partition["live"]["in_flight"].as_u64().is_some_and(|attempts| attempts > 0);
        group["partitions"].as_array()?.iter().all(busy).then_some(())
    })
    .await;
}

impl Scene {
    /// Waits until `b` has let go of its two.
    async fn until_vacant(&self) -> Instant {
        wait::until("two partitions without an owner", PATIENCE, || async {
            (self.cluster.owners("g", &self.topic).len() == 2).then(Instant::now)
        })
        .await
    }
}

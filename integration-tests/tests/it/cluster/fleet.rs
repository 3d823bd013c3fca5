//! Three pushers, 12 partitions, 20 groups: spread evenly, and handed over when one comes or goes.

use futures_util::future::join_all;
use integration_tests::cluster::TAKEN_OVER;
use integration_tests::ledger::{by_target, repeated_too_much};
use integration_tests::load::Load;
use integration_tests::receiver::Answer;
use serde_json::json;

use super::*;

const GROUPS: usize = 20;
const PARTITIONS: u32 = 12;
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);
/// What was done when a commit began is stored when it ends, on a busy machine.
const SLOWEST_COMMIT: Duration = Duration::from_millis(1_500);
/// Of a partition that stays where it is, with a message or more a second.
const UNDISTURBED: Duration = Duration::from_secs(4);

type Owners = BTreeMap<String, BTreeMap<u32, String>>;

struct Fleet {
    cluster: Cluster,
    topic: String,
    proxy: Gateway,
    receiver: Receiver,
}

impl Fleet {
    async fn new() -> Self {
        let cluster = Cluster::shared().await;
        let topic = cluster.topic("fleet", PARTITIONS as i32).await;
        let proxy = cluster.proxy().start().await;
        let receiver = Receiver::start(|_| Answer::Status(200).after(3 * MS)).await;
        Self { cluster, topic, proxy, receiver }
    }

    fn names() -> impl Iterator<Item = String> {
        (0..GROUPS).map(|n| format!("g{n}"))
    }

    async fn start(&self, instance: &str) -> Gateway {
        let policy = json!({"commit_interval": "200ms", "timeout": "10s"});
        let groups = Self::names().map(|name| group(&name, &self.topic, &format!("http://{}/{name}", self.receiver.addr), &policy));
        self.cluster.pusher(instance, groups).start().await
    }

    fn owners(&self) -> Owners {
        self.cluster.owners_of(&Self::names().collect::<Vec<_>>(), &self.topic, PARTITIONS)
    }

    /// Waits until every partition of every group has one of these as its owner, within one of even.
    async fn until_spread(&self, instances: &[&str], within: Duration) -> Owners {
        wait::until(&format!("{instances:?} to share all partitions"), within, || async {
            let owners = self.owners();
            let even = owners.values().all(|of_group| of_group.len() == PARTITIONS as usize && is_even(of_group, instances));
            even.then_some(owners)
        })
        .await
    }

    /// Waits until every partition of every group has one of these as its owner.
    async fn until_owned(&self, instances: &[&str], within: Duration) {
        wait::until_right(within, || async {
            let all = |of_group: &BTreeMap<u32, String>| {
                of_group.len() == PARTITIONS as usize && of_group.values().all(|owner| instances.contains(&owner.as_str()))
            };
            let without: Owners = self.owners().into_iter().filter(|(_, of_group)| !all(of_group)).collect();
            if without.is_empty() { Ok(()) } else { Err(format!("not all partitions are of {instances:?}: {without:?}")) }
        })
        .await;
    }

    /// A message every 20 ms, each second one of each key, so that every partition has some.
    fn load(&self) -> Load {
        Load::start(Producer::new(self.proxy.api, &self.topic), 50, 50)
    }

    /// Waits until each group got so many more.
    async fn until_delivered(&self, more: usize) {
        let count = self.receiver.count() + more * GROUPS;
        self.receiver.until_count(count, Duration::from_secs(20)).await;
    }

    /// All that was posted is delivered to every group, in order; returns what each got.
    async fn settle(&self, load: Load) -> BTreeMap<String, (Verdict, Vec<Seen>)> {
        let acked = load.stop().await;
        wait::until("every group to have all of it", Duration::from_secs(20), || async {
            let seen = by_target(&self.receiver.seen());
            let all = seen.len() == GROUPS && seen.values().all(|seen| judge(&acked, seen).lost.is_empty());
            all.then_some(())
        })
        .await;
        for name in Self::names() {
            self.cluster.until_cursors_at_end(&name, &self.topic, Duration::from_secs(10)).await;
        }
        let judged = |(target, seen): (String, Vec<Seen>)| {
            let verdict = judge(&acked, &seen);
            verdict.assert_nothing_lost_or_reordered();
            (target.trim_start_matches('/').to_owned(), (verdict, seen))
        };
        by_target(&self.receiver.seen()).into_iter().map(judged).collect()
    }
}

/// What had the same owner before and after was touched by nobody: one epoch, and no pause.
fn assert_only_moved_ones_paused(
    before: &Owners,
    after: &Owners,
    got: &BTreeMap<String, (Verdict, Vec<Seen>)>,
    from: Instant,
    to: Instant,
) {
    let mut stayed = 0;
    for (name, (_, seen)) in got {
        for partition in (0..PARTITIONS).filter(|p| before[name][p] == after[name][p]) {
            let mine: Vec<Seen> = seen.iter().filter(|s| s.partition() == partition).cloned().collect();
            let Some(epoch) = mine.first().map(Seen::epoch) else { continue };
            assert!(mine.iter().all(|s| s.epoch() == epoch), "{name} {partition} stayed where it was, and its epoch did not");
            let gap = longest_gap(&mine, from, to);
            assert!(gap < UNDISTURBED, "{name} {partition} stayed where it was, and paused for {gap:?}");
            stayed += 1;
        }
    }
    assert!(stayed >= GROUPS, "only {stayed} partitions stayed where they were");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_pushers_share_evenly_and_a_fourth_gets_its_share_without_a_repeat() {
    let fleet = Fleet::new().await;
    let _three = join_all(["a", "b", "c"].map(|instance| fleet.start(instance))).await;
    let before = fleet.until_spread(&["a", "b", "c"], Duration::from_secs(20)).await;
    let load = fleet.load();
    fleet.until_delivered(100).await;
    let joins = Instant::now();
    let _fourth = fleet.start("d").await;
    let after = fleet.until_spread(&["a", "b", "c", "d"], Duration::from_secs(15)).await;
    fleet.until_delivered(100).await;
    let end = Instant::now();
    let got = fleet.settle(load).await;
    assert!(got.values().all(|(verdict, _)| verdict.repeats == 0), "a hand-over repeats nothing that had finished");
    assert_only_moved_ones_paused(&before, &after, &got, joins, end);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pusher_that_is_stopped_hands_over_without_a_repeat() {
    let fleet = Fleet::new().await;
    let mut three = join_all(["a", "b", "c"].map(|instance| fleet.start(instance))).await;
    let before = fleet.until_spread(&["a", "b", "c"], Duration::from_secs(20)).await;
    let load = fleet.load();
    fleet.until_delivered(100).await;
    let leaves = Instant::now();
    let status = three[1].terminate(Duration::from_secs(10)).await;
    assert_eq!(status.code(), Some(0), "{}", three[1].log());
    // It waited for no session to end.
    let after = fleet.until_spread(&["a", "c"], Duration::from_secs(5)).await;
    fleet.until_delivered(100).await;
    let end = Instant::now();
    let got = fleet.settle(load).await;
    assert!(got.values().all(|(verdict, _)| verdict.repeats == 0), "a hand-over repeats nothing that had finished");
    assert_only_moved_ones_paused(&before, &after, &got, leaves, end);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_every_partition_has_an_owner_in_time_and_nothing_stored_is_repeated() {
    let fleet = Fleet::new().await;
    let mut three = join_all(["a", "b", "c"].map(|instance| fleet.start(instance))).await;
    let before = fleet.until_spread(&["a", "b", "c"], Duration::from_secs(20)).await;
    let load = fleet.load();
    fleet.until_delivered(100).await;
    three[1].kill();
    let killed = Instant::now();
    fleet.until_owned(&["a", "c"], TAKEN_OVER).await;
    eprintln!("every partition has an owner {:?} after the kill", killed.elapsed());
    let after = fleet.until_spread(&["a", "c"], Duration::from_secs(10)).await;
    fleet.until_delivered(100).await;
    let end = Instant::now();
    let got = fleet.settle(load).await;
    for (name, (_, seen)) in &got {
        let bad = repeated_too_much(seen, killed, COMMIT_INTERVAL + SLOWEST_COMMIT);
        assert!(bad.is_empty(), "{name}: {} records were repeated although done long before the kill: {:?}", bad.len(), bad.first());
    }
    assert_only_moved_ones_paused(&before, &after, &got, killed, end);
}

//! `mqgate proxy` and `mqgate pusher` on real Kafka and real `ZooKeeper`: several of each, and what happens
//! when some of them go away.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use integration_tests::cluster::Cluster;
use integration_tests::gateway::{Gateway, group};
use integration_tests::ledger::{Acked, Verdict, judge};
use integration_tests::producer::Producer;
use integration_tests::receiver::Receiver;
use integration_tests::request::Seen;
use integration_tests::wait;
use serde_json::Value;

mod cancelled;
mod clusters;
mod connect_strings;
mod fleet;
mod growth;
mod handover;
mod kafka_away;
mod next_in_rank;
mod patience;
mod records;
mod restart;
mod series;
mod session;
mod stretching;
mod timeouts;
mod tries;
mod zookeeper_away;

const MS: Duration = Duration::from_millis(1);

/// One topic, one proxy, one receiver of the group `g`.
struct Scene {
    cluster: Cluster,
    topic: String,
    proxy: Gateway,
    receiver: Receiver,
    /// Of the group.
    policy: Value,
}

impl Scene {
    async fn new(cluster: Cluster, partitions: i32, receiver: Receiver, policy: Value) -> Self {
        let topic = cluster.topic("scene", partitions).await;
        let proxy = cluster.proxy().start().await;
        Self { cluster, topic, proxy, receiver, policy }
    }

    fn producer(&self) -> Producer {
        Producer::new(self.proxy.api, &self.topic)
    }

    fn group(&self) -> Value {
        group("g", &self.topic, &self.receiver.url(), &self.policy)
    }

    async fn pusher(&self, instance: &str) -> Gateway {
        self.cluster.pusher(instance, [self.group()]).start().await
    }

    /// That reaches `ZooKeeper` at another address, through a relay.
    async fn pusher_by(&self, instance: &str, zookeeper: std::net::SocketAddr) -> Gateway {
        self.cluster.pusher(instance, [self.group()]).field("zookeepers", serde_json::json!([zookeeper])).start().await
    }

    async fn until_owned(&self, partitions: u32, instances: &[&str], within: Duration) -> BTreeMap<u32, String> {
        self.cluster.until_owned("g", &self.topic, partitions, instances, within).await
    }

    /// Waits until each of `instances` owns its share of the partitions, within one of even.
    async fn until_spread(&self, partitions: u32, instances: &[&str], within: Duration) -> BTreeMap<u32, String> {
        wait::until_right(within, || async {
            let owners = self.cluster.owners("g", &self.topic);
            let even = owners.len() == partitions as usize && is_even(&owners, instances);
            if even { Ok(owners) } else { Err(format!("{instances:?} should share {partitions} partitions: {owners:?}")) }
        })
        .await
    }

    /// `n` messages of as many keys.
    async fn post(&self, n: usize) -> Vec<Acked> {
        let producer = self.producer();
        let mut acked = Vec::new();
        for n in 0..n {
            acked.push(producer.plain(Some(&format!("k{n}")), &[], n.to_string().into()).await.unwrap());
        }
        acked
    }

    /// Waits until all of this is delivered and an old tool finds every cursor at the end.
    async fn settle(&self, acked: &[Acked], within: Duration) -> Verdict {
        let lost = |seen: &[Seen]| judge(acked, seen).lost;
        wait::until("all of it to be delivered", within, || async { lost(&self.receiver.seen()).is_empty().then_some(()) }).await;
        self.cluster.until_cursors_at_end("g", &self.topic, Duration::from_secs(10)).await;
        judge(acked, &self.receiver.seen())
    }
}

/// Whether exactly these own the partitions, within one of even.
fn is_even(owners: &BTreeMap<u32, String>, instances: &[&str]) -> bool {
    let share = |instance: &&str| owners.values().filter(|owner| owner == instance).count();
    let shares: Vec<usize> = instances.iter().map(share).collect();
    shares.iter().sum::<usize>() == owners.len() && shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1
}

/// The longest time between two arrivals in this span, its ends included.
fn longest_gap(seen: &[Seen], from: Instant, to: Instant) -> Duration {
    let within = seen.iter().map(|s| s.at).filter(|at| (from..=to).contains(at));
    let moments: Vec<Instant> = std::iter::once(from).chain(within).chain(std::iter::once(to)).collect();
    moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
}

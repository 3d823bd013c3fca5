//! Everything that takes part: three brokers, three ZooKeeper servers, two proxies, three pushers and
//! one that comes and goes, and a receiver for each group.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::faults::{Fault, Journal};
use super::lane::Lane;
use super::traffic::Sent;
use super::{brokers, operator, processes, receivers, servers, verdict};
use crate::gateway::{Gateway, Role, Setup};
use crate::kafka::trio::Trio;
use crate::receiver::{Answer, Receiver};
use crate::relay::Relay;
use crate::request::Seen;
use crate::zookeeper::ZooKeeper;

pub(super) const ORDERS: &str = "orders";
/// Gets partitions while it is used.
pub(super) const GROWING: &str = "events";
pub(super) const GROWN_TO: usize = 8;
/// Is deleted and made again.
pub(super) const CHURN: &str = "churn";
pub(super) const TOPICS: [&str; 3] = [ORDERS, GROWING, CHURN];

pub(super) const GROUPS: [&str; 3] = ["steady", "slow", "relayed"];

pub(super) const WORKERS: usize = 8;
pub(super) const COMMIT_INTERVAL: Duration = Duration::from_millis(500);
pub(super) const SESSION: Duration = Duration::from_secs(6);

const BEGIN_PARTITIONS: usize = 3;

pub(super) fn topics_of(group: &str) -> &'static [&'static str] {
    match group {
        "steady" => &[ORDERS, GROWING],
        "slow" => &[ORDERS],
        _ => &[GROWING, CHURN],
    }
}

pub(super) struct Callback {
    pub(super) group: &'static str,
    /// Between the pushers and the receiver.
    pub(super) relay: Relay,
    receiver: Receiver,
    refusing: Arc<AtomicBool>,
}

impl Callback {
    async fn start(group: &'static str) -> Self {
        let refusing = Arc::new(AtomicBool::new(false));
        let refuses = refusing.clone();
        let receiver = Receiver::start(move |seen| match refuses.load(Ordering::Relaxed) {
            true => Answer::Status(503),
            false => answer(group, seen),
        });
        let receiver = receiver.await;
        Self { group, relay: Relay::start(receiver.addr).await, receiver, refusing }
    }

    pub(super) fn refuse(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::Relaxed);
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.receiver.seen()
    }

    fn config(&self) -> Value {
        json!({
            "group": self.group, "topics": topics_of(self.group), "url": format!("http://{}/", self.relay.addr()),
            "initial_from_oldest": true, "worker_num": WORKERS, "timeout": "2s", "retry_times": 2, "failed_sleep": "200ms",
            "retry_backoff": {"initial": "50ms", "max": "500ms"}, "commit_interval": "500ms",
        })
    }
}

/// Some fail once, some are slow.
fn answer(group: &str, seen: &Seen) -> Answer {
    match group {
        "steady" if seen.offset().is_multiple_of(61) && seen.attempt() == 0 => Answer::Status(500),
        "slow" => Answer::Status(200).after(Duration::from_millis(seen.offset() * 37 % 120)),
        _ => Answer::Status(200),
    }
}

pub(super) struct Member {
    pub(super) gateway: Gateway,
    /// Between this pusher and each ZooKeeper server.
    pub(super) relays: Vec<Relay>,
}

pub(super) struct World {
    trio: Mutex<Trio>,
    ensemble: ZooKeeper,
    proxies: Vec<Gateway>,
    pushers: Vec<Member>,
    pub(super) callbacks: Vec<Callback>,
    partitions: usize,
}

impl World {
    pub(super) async fn start() -> Self {
        let (trio, ensemble) = tokio::join!(Trio::start(), ZooKeeper::ensemble(servers::SIZE));
        trio.create_topic(ORDERS, 6).await;
        trio.create_topic(GROWING, i32::try_from(BEGIN_PARTITIONS).unwrap()).await;
        trio.create_topic(CHURN, 2).await;
        let mut callbacks = Vec::new();
        for group in GROUPS {
            callbacks.push(Callback::start(group).await);
        }
        let queue = json!({"kafka": {"brokers": trio.brokers().split(',').collect::<Vec<_>>()}});
        let mut proxies = Vec::new();
        for _ in 0..2 {
            let proxy = Setup { role: Role::Proxy, ..Setup::default() }.field("queue", queue.clone());
            proxies.push(proxy.proxy("drain_timeout", json!("5s")).start().await);
        }
        let groups: Vec<Value> = callbacks.iter().map(Callback::config).collect();
        let mut pushers = Vec::new();
        for number in 1..=4 {
            pushers.push(member(&ensemble, number, &groups, &queue).await);
        }
        for member in &mut pushers[..3] {
            member.gateway.restart().await;
        }
        Self { trio: Mutex::new(trio), ensemble, proxies, pushers, callbacks, partitions: BEGIN_PARTITIONS }
    }

    pub(super) fn proxies(&self) -> Vec<SocketAddr> {
        self.proxies.iter().map(|proxy| proxy.api).collect()
    }

    /// Until `end`, and until all that was broken is healed.
    pub(super) async fn break_things(&mut self, seed: u64, began: Instant, end: &CancellationToken, say: fn(&str)) -> Journal {
        let journal = Journal::new(began, say);
        let lane = |number| Lane::new(seed, number, journal.clone(), end);
        let admins: Vec<SocketAddr> = self.pushers.iter().map(|member| member.gateway.admin).collect();
        tokio::join!(
            brokers::run(lane(1), &self.trio),
            servers::run(lane(2), &mut self.ensemble),
            processes::break_proxies(lane(3), &mut self.proxies),
            processes::break_pushers(lane(4), &mut self.pushers),
            receivers::run(lane(5), &self.callbacks),
            operator::run(lane(6), &self.trio, &admins, &mut self.partitions),
        );
        for gateway in self.proxies.iter_mut().chain(self.pushers.iter_mut().map(|member| &mut member.gateway)) {
            if !gateway.runs() {
                gateway.spawn();
            }
        }
        journal
    }

    /// Waits until all that must be delivered is; says how long that took, or that time was up.
    pub(super) async fn settle(&self, sent: &Sent, faults: &[Fault], within: Duration) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < within {
            if self.callbacks.iter().all(|callback| verdict::missing(callback, sent, faults).is_empty()) {
                return Some(began.elapsed());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        None
    }
}

async fn member(ensemble: &ZooKeeper, number: usize, groups: &[Value], queue: &Value) -> Member {
    let mut relays = Vec::new();
    for index in 0..servers::SIZE {
        relays.push(Relay::start(ensemble.addr(index)).await);
    }
    let servers: Vec<String> = relays.iter().map(|relay| relay.addr().to_string()).collect();
    let setup = Setup { role: Role::Pusher, ..Setup::groups(groups.to_vec()) };
    let setup = setup.field("queue", queue.clone()).field("zookeepers", json!(servers)).field("zk_path", json!("/chaos"));
    let setup = setup.pusher("instance", json!(format!("p{number}"))).pusher("drain_timeout", json!("5s"));
    let setup = setup.pusher("session_timeout", json!(format!("{}s", SESSION.as_secs())));
    Member { gateway: Gateway::new(setup), relays }
}

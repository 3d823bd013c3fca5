//! Everything that takes part: three brokers, three ZooKeeper servers, two proxies, three pushers and
//! one that comes and goes, and a receiver for each group.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use super::faults::{Done, Journal};
use super::lane::Lane;
use super::owners::{self, Owners};
use super::senders::Senders;
use super::traffic::Sent;
use super::{brokers, operator, processes, receiver, receivers, servers, verdict};
use crate::gateway::{Gateway, Role, Setup};
use crate::kafka::trio::{self, Trio};
use crate::receiver::{Answer, Receiver};
use crate::relay::Relay;
use crate::request::Seen;
use crate::zookeeper::ZooKeeper;
use crate::zookeeper::tool::Tool;

pub(super) const ORDERS: &str = "orders";
/// Gets partitions while it is used.
pub(super) const GROWING: &str = "events";
pub(super) const GROWN_TO: usize = 8;
/// Is deleted and made again.
pub(super) const CHURN: &str = "churn";
pub(super) const TOPICS: [&str; 3] = [ORDERS, GROWING, CHURN];

pub(super) const GROUPS: [&str; 3] = ["steady", "slow", "relayed"];

/// The last of them comes and goes.
pub(super) const PUSHERS: usize = 4;
pub(super) const WORKERS: usize = 8;
pub(super) const COMMIT_INTERVAL: Duration = Duration::from_millis(500);
pub(super) const SESSION: Duration = Duration::from_secs(6);

const BEGIN_PARTITIONS: usize = 3;
const CHROOT: &str = "/chaos";

pub(super) fn topics_of(group: &str) -> &'static [&'static str] {
    match group {
        "steady" => &[ORDERS, GROWING],
        "slow" => &[ORDERS],
        _ => &[GROWING, CHURN],
    }
}

pub(super) struct Callback {
    pub(super) group: &'static str,
    /// Between the pushers and the receiver's process.
    pub(super) relay: Relay,
    pub(super) process: receiver::Process,
    /// Behind it, the ledger.
    pub(super) receiver: Receiver,
    pub(super) senders: Arc<Senders>,
    refusing: Arc<AtomicBool>,
}

impl Callback {
    async fn start(group: &'static str, program: &Path) -> Self {
        let receiver = Receiver::ok().await;
        let process = receiver::Process::start(program, receiver.addr).await;
        let relay = Relay::start(process.addr).await;
        let (senders, refusing) = (Arc::new(Senders::new(relay.clients())), Arc::new(AtomicBool::new(false)));
        let (book, refuses) = (senders.clone(), refusing.clone());
        receiver.script(move |seen| {
            book.arrived(seen);
            if refuses.load(Ordering::Relaxed) { Answer::Status(503) } else { answer(group, seen) }
        });
        Self { group, relay, process, receiver, senders, refusing }
    }

    pub(super) fn refuse(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::Relaxed);
    }

    fn misses_nothing(&self, sent: &Sent, done: &Done) -> bool {
        let all = |seen: &[Seen]| {
            verdict::missing(self.group, seen, sent, done).is_empty() && verdict::not_replayed(self.group, seen, sent, done).is_empty()
        };
        self.receiver.look(all)
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

/// Between a pusher and a ZooKeeper server or a broker: broken by what is done to either, and mended by what is over first.
pub(super) type Way = Arc<Relay>;

pub(super) struct Member {
    pub(super) gateway: Gateway,
    pub(super) ways: [Way; servers::SIZE],
    pub(super) to_kafka: [Way; trio::SIZE],
}

/// A proxy, and the way of producers to it.
pub(super) struct Entrance {
    pub(super) gateway: Gateway,
    pub(super) way: Relay,
}

pub(super) struct World {
    trio: Mutex<Trio>,
    ensemble: ZooKeeper,
    proxies: Vec<Entrance>,
    pushers: Vec<Member>,
    pub(super) callbacks: Vec<Callback>,
    partitions: usize,
}

impl World {
    pub(super) async fn start(program: &Path) -> Self {
        let (trio, ensemble) = tokio::join!(Trio::start(PUSHERS), ZooKeeper::divisible(servers::SIZE));
        trio.create_topic(ORDERS, 6).await;
        trio.create_topic(GROWING, i32::try_from(BEGIN_PARTITIONS).unwrap()).await;
        trio.create_topic(CHURN, 2).await;
        let mut callbacks = Vec::new();
        for group in GROUPS {
            callbacks.push(Callback::start(group, program).await);
        }
        let queue = json!({"kafka": {"brokers": trio.brokers()}});
        let mut proxies = Vec::new();
        for _ in 0..2 {
            let proxy = Setup { role: Role::Proxy, ..Setup::default() }.field("queue", queue.clone());
            let gateway = proxy.proxy("drain_timeout", json!("5s")).start().await;
            let way = Relay::start(gateway.api).await;
            proxies.push(Entrance { gateway, way });
        }
        let groups: Vec<Value> = callbacks.iter().map(Callback::config).collect();
        let mut pushers = Vec::new();
        for number in 1..=PUSHERS {
            pushers.push(member(&ensemble, number, &groups, trio.own_way(number - 1)).await);
        }
        for member in &mut pushers[..PUSHERS - 1] {
            member.gateway.restart().await;
        }
        Self { trio: Mutex::new(trio), ensemble, proxies, pushers, callbacks, partitions: BEGIN_PARTITIONS }
    }

    pub(super) fn proxies(&self) -> Vec<SocketAddr> {
        self.proxies.iter().map(|proxy| proxy.way.addr()).collect()
    }

    /// Of requests, by receiver.
    pub(super) fn counts(&self) -> Vec<watch::Receiver<usize>> {
        self.callbacks.iter().map(|callback| callback.receiver.counted()).collect()
    }

    /// Until `end`, and until all that was broken is healed.
    pub(super) async fn break_things(&mut self, seed: u64, journal: &Journal, end: &CancellationToken) {
        let lane = |number| Lane::new(seed, number, journal.clone(), end);
        let admins: Vec<SocketAddr> = self.pushers.iter().map(|member| member.gateway.admin).collect();
        let ways: Vec<_> = self.pushers.iter().map(|member| member.ways.clone()).collect();
        tokio::join!(
            brokers::run(lane(1), &self.trio),
            servers::run(lane(2), &mut self.ensemble, &ways),
            processes::break_proxies(lane(3), &mut self.proxies),
            processes::break_pushers(lane(4), &mut self.pushers),
            receivers::run(lane(5), &mut self.callbacks),
            operator::run(lane(6), &self.trio, &admins, &mut self.partitions),
        );
        let proxies = self.proxies.iter_mut().map(|entrance| &mut entrance.gateway);
        for gateway in proxies.chain(self.pushers.iter_mut().map(|member| &mut member.gateway)) {
            if !gateway.runs() {
                gateway.spawn();
            }
        }
    }

    /// Waits until all that must be delivered is; says how long that took, or that time was up.
    pub(super) async fn settle(&self, sent: &Sent, done: &Done, within: Duration) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < within {
            if self.callbacks.iter().all(|callback| callback.misses_nothing(sent, done)) {
                return Some(began.elapsed());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        None
    }

    pub(super) fn owners(&self) -> Owners {
        let mut owners = Owners::default();
        (1..).zip(&self.pushers).for_each(|(number, member)| owners.read(number, &member.gateway.log()));
        owners
    }

    pub(super) fn keep_logs(&self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        let keep = |name: &str, number: usize, gateway: &Gateway| {
            std::fs::write(folder.join(format!("{name}-{number}.log")), gateway.log()).unwrap();
        };
        (1..).zip(&self.proxies).for_each(|(number, entrance)| keep("proxy", number, &entrance.gateway));
        (1..).zip(&self.pushers).for_each(|(number, member)| keep("pusher", number, &member.gateway));
    }

    /// The group's cursor, as an old tool reads it.
    pub(super) fn cursor(&self, group: &str, topic: &str, partition: u32) -> Option<u64> {
        let path = format!("{CHROOT}/consumers/{group}/offsets/{topic}/{partition}");
        Tool::connect(self.ensemble.addr(0)).get(&path)?.parse().ok()
    }
}

async fn member(ensemble: &ZooKeeper, number: usize, groups: &[Value], to_kafka: [Way; trio::SIZE]) -> Member {
    let mut ways = Vec::new();
    for index in 0..servers::SIZE {
        ways.push(Arc::new(Relay::start(ensemble.addr(index)).await));
    }
    let servers: Vec<String> = ways.iter().map(|way| way.addr().to_string()).collect();
    let setup = Setup { role: Role::Pusher, ..Setup::groups(groups.to_vec()) };
    let brokers: Vec<String> = to_kafka.iter().map(|way| way.addr().to_string()).collect();
    let setup =
        setup.field("queue", json!({"kafka": {"brokers": brokers}})).field("zookeepers", json!(servers)).field("zk_path", json!(CHROOT));
    let setup = setup.pusher("instance", json!(format!("p{number}"))).pusher("drain_timeout", json!("5s"));
    let mut setup = setup.pusher("session_timeout", json!(format!("{}s", SESSION.as_secs())));
    setup.environment.push((owners::LOG.0.to_owned(), owners::LOG.1.to_owned()));
    let ways = ways.try_into().unwrap_or_else(|_| unreachable!("one for each server"));
    Member { gateway: Gateway::new(setup), ways, to_kafka }
}

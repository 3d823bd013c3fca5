//! Several pushers over `ZooKeeper`, each with a session of its own, on one log.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::config::{self, GroupConfig, Overrides, PusherConfig, Role};
use common::coordinator::{Coordinator, ZooKeeperCoordinator};
use common::ids::{GroupName, GroupPartition, Partition, Topic};
use common::queue::embedded::{EmbeddedQueue, Options};
use common::queue::{Ack, Queue};
use common::record::{Message, Payload};
use common::store::Store;
use common::telemetry::Metrics;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Empty};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::relay::{Flow, Relay};
use integration_tests::request::Seen;
use integration_tests::wait;
use pusher::{GroupSetup, Pusher};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{SESSION, World, open};

const PARTITIONS: u32 = 12;
/// A takeover after a death: the session timeout, a tick, and time to notice.
const TAKEOVER: Duration = Duration::from_secs(8);

struct Log {
    queue: Arc<EmbeddedQueue>,
    config: config::Config,
    _dir: TempDir,
}

impl Log {
    async fn new(groups: &[(&str, &Receiver)]) -> Self {
        let group = |(name, receiver): &(&str, &Receiver)| {
            format!(
                r#"{{"group":"{name}","url":"{}","topics":["t"],"initial_from_oldest":true,"commit_interval":"200ms","timeout":"5s"}}"#,
                receiver.url()
            )
        };
        let groups: Vec<_> = groups.iter().map(group).collect();
        let file = format!(r#"{{"consumer_groups":[{}]}}"#, groups.join(","));
        let config = config::parse(Role::Standalone, "test", file.as_bytes(), &Overrides::default()).unwrap().config;
        let dir = tempfile::tempdir().unwrap();
        let config::QueueConfig::Embedded(options) = &config.queue else { unreachable!("standalone's default") };
        let store = Store::open(dir.path()).unwrap();
        let queue = EmbeddedQueue::open(store, Options::from(options), Metrics::new("test").registry()).unwrap();
        queue.create_topic(&Topic::new("t").unwrap(), PARTITIONS).await.unwrap();
        Self { queue, config, _dir: dir }
    }

    async fn post(&self, key: u32, value: u32) {
        let payload = Payload { key: Some(key.to_string().into()), value: Some(value.to_string().into()), headers: Vec::new() };
        let message = Message { topic: Topic::new("t").unwrap(), partition: None, timestamp: None, payload };
        self.queue.produce(message, Ack::All).await.unwrap();
    }

    /// In bursts, so that every change of the fleet meets attempts.
    async fn post_all(&self, values: std::ops::Range<u32>) {
        for value in values {
            self.post(value % 40, value).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Asks the admin API, without a port.
type Get = Box<dyn Fn(&str) -> BoxFuture<'static, Value> + Send + Sync>;

struct Machine {
    coordinator: Arc<ZooKeeperCoordinator>,
    v1: Get,
    drain: CancellationToken,
    run: JoinHandle<Result<(), pusher::StartError>>,
}

impl Machine {
    fn start(instance: &str, world: &World, log: &Log) -> Self {
        Self::behind(instance, world, log, &world.servers.connect_string())
    }

    fn behind(instance: &str, world: &World, log: &Log, servers: &str) -> Self {
        let coordinator = Arc::new(open(world.options(servers)));
        let setup =
            |config: &GroupConfig| GroupSetup { config: config.clone(), queue: log.queue.clone(), coordinator: coordinator.clone() };
        let admin = ([10, 0, 0, instance.as_bytes()[0]], 9091).into();
        let config = PusherConfig { admin, instance: instance.into(), session_timeout: SESSION, ..log.config.pusher.clone() };
        let setups: Vec<_> = log.config.groups.iter().map(setup).collect();
        let pusher = Pusher::start(&config, &setups, Metrics::new("test").registry()).unwrap();
        let v1 = TowerToHyperService::new(pusher.admin_routes(log.queue.clone()));
        let v1: Get = Box::new(move |path: &str| {
            let asked = v1.call(hyper::Request::get(path).body(Empty::<Bytes>::new()).unwrap());
            let answer =
                async move { serde_json::from_slice(&asked.await.unwrap().into_body().collect().await.unwrap().to_bytes()).unwrap() };
            answer.boxed()
        });
        let drain = CancellationToken::new();
        let run = tokio::spawn(pusher.run(drain.clone()));
        Self { coordinator, v1, drain, run }
    }

    async fn stop(self) {
        self.drain.cancel();
        tokio::time::timeout(Duration::from_secs(20), self.run).await.unwrap().unwrap().unwrap();
    }
}

/// How many partitions of a group each instance owns.
async fn owned(coordinator: &ZooKeeperCoordinator, group: &str) -> BTreeMap<String, usize> {
    let at = |partition| GroupPartition {
        group: GroupName::new(group).unwrap(),
        topic: Topic::new("t").unwrap(),
        partition: Partition(partition),
    };
    let all: Vec<_> = (0..PARTITIONS).map(at).collect();
    let Ok(standing) = coordinator.standing(&all).await else { return BTreeMap::new() };
    standing.into_iter().filter_map(|standing| standing.owner).fold(BTreeMap::new(), |mut owned, owner| {
        *owned.entry(owner).or_default() += 1;
        owned
    })
}

async fn until_shared(machine: &Machine, group: &str, shares: &[(&str, usize)], within: Duration) {
    let expected: BTreeMap<String, usize> = shares.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect();
    let so = async || (owned(&machine.coordinator, group).await == expected).then_some(());
    wait::until(&format!("{group} is shared as {shares:?}"), within, so).await;
}

/// Delivered by their values: every one, in the order of its key; how often each came more than once.
fn judge(seen: &[Seen], values: u32) -> usize {
    let mut firsts: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut times: BTreeMap<u32, usize> = BTreeMap::new();
    for request in seen {
        let value: u32 = std::str::from_utf8(&request.body).unwrap().parse().unwrap();
        let before = times.entry(value).or_default();
        *before += 1;
        if *before == 1 {
            firsts.entry(value % 40).or_default().push(value);
        }
    }
    assert_eq!(times.len(), values as usize, "nothing is missing");
    assert!(firsts.values().all(|of_key| of_key.is_sorted()), "each key in its order");
    times.values().map(|times| times - 1).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_under_load_and_nothing_is_delivered_twice() {
    let world = World::fresh().await;
    let (one, two) = (Receiver::start(|_| Answer::Status(200).after(Duration::from_millis(5))).await, Receiver::ok().await);
    let log = Log::new(&[("one", &one), ("two", &two)]).await;
    let a = Machine::start("a", &world, &log);
    until_shared(&a, "one", &[("a", 12)], TAKEOVER).await;
    let changes = async {
        let b = Machine::start("b", &world, &log);
        let c = Machine::start("c", &world, &log);
        for group in ["one", "two"] {
            until_shared(&a, group, &[("a", 4), ("b", 4), ("c", 4)], TAKEOVER).await;
        }
        b.stop().await;
        for group in ["one", "two"] {
            until_shared(&a, group, &[("a", 6), ("c", 6)], TAKEOVER).await;
        }
        c
    };
    let (c, ()) = tokio::join!(changes, log.post_all(0..1500));
    for receiver in [&one, &two] {
        let seen = receiver.until_done(1500, Duration::from_secs(20)).await;
        assert_eq!(judge(&seen, 1500), 0);
    }
    c.stop().await;
    until_shared(&a, "one", &[("a", 12)], TAKEOVER).await;
    a.stop().await;
    assert!([one.count(), two.count()] == [1500, 1500]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ends_pauses_delivery_and_its_return_resumes_it_under_the_same_epochs() {
    let world = World::fresh().await;
    let receiver = Receiver::ok().await;
    let log = Log::new(&[("g", &receiver)]).await;
    let relay = Relay::start(world.servers.addr(0)).await;
    let a = Machine::behind("a", &world, &log, &relay.addr().to_string());
    until_shared(&a, "g", &[("a", 12)], TAKEOVER).await;
    log.post_all(0..40).await;
    receiver.until_done(40, TAKEOVER).await;
    let lease = a.coordinator.lease();
    let sessions = lease.losses().sessions;
    relay.both(Flow::Hold);
    wait::until("the lease has ended", SESSION, async || (!lease.holds()).then_some(())).await;
    log.post_all(40..80).await;
    assert_eq!(receiver.count(), 40, "nothing without a lease");
    relay.both(Flow::Pass);
    let seen = receiver.until_done(80, Duration::from_secs(5)).await;
    assert_eq!((judge(&seen, 80), lease.losses().sessions), (0, sessions));
    let epochs: std::collections::BTreeSet<_> =
        seen.iter().map(|request| (request.partition(), request.header("x-kmq-epoch").unwrap().to_owned())).collect();
    let partitions: std::collections::BTreeSet<_> = seen.iter().map(|request| request.partition()).collect();
    assert_eq!(epochs.len(), partitions.len());
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_cut_off_is_replaced_and_comes_back_by_itself() {
    let world = World::fresh().await;
    let receiver = Receiver::ok().await;
    let log = Log::new(&[("g", &receiver)]).await;
    let relay = Relay::start(world.servers.addr(0)).await;
    let a = Machine::start("a", &world, &log);
    let b = Machine::behind("b", &world, &log, &relay.addr().to_string());
    until_shared(&a, "g", &[("a", 6), ("b", 6)], TAKEOVER).await;
    let cut = async {
        relay.both(Flow::Hold);
        until_shared(&a, "g", &[("a", 12)], TAKEOVER).await;
        relay.both(Flow::Pass);
        until_shared(&a, "g", &[("a", 6), ("b", 6)], TAKEOVER).await;
    };
    tokio::join!(cut, log.post_all(0..2000));
    let repeated = |seen: &[Seen]| {
        let mut values: Vec<_> = seen.iter().map(|request| request.body.clone()).collect();
        values.sort();
        values.dedup();
        values.len()
    };
    let seen = receiver.until("all are delivered", Duration::from_secs(20), |seen| repeated(seen) == 2000).await;
    let again = judge(&seen, 2000);
    assert!(again < 500, "{again} were delivered twice");
    b.stop().await;
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_member_shows_every_partition_of_the_fleet_and_where_to_ask_for_more() {
    let world = World::fresh().await;
    let receiver = Receiver::ok().await;
    let log = Log::new(&[("g", &receiver)]).await;
    let (a, b) = (Machine::start("a", &world, &log), Machine::start("b", &world, &log));
    until_shared(&a, "g", &[("a", 6), ("b", 6)], 3 * TAKEOVER).await;
    log.post_all(0..100).await;
    receiver.until_done(100, TAKEOVER).await;
    let caught_up = async || {
        let detail = (a.v1)("/groups/g").await;
        let partitions = detail["partitions"].as_array().unwrap().clone();
        partitions.iter().all(|of| of["lag"] == 0).then_some(partitions)
    };
    let partitions = wait::until("what b has done is stored", TAKEOVER, caught_up).await;
    assert_eq!(partitions.len(), 12);
    for of in &partitions {
        let of_b = of["owner"] == "b";
        assert!(of_b || of["owner"] == "a", "{of}");
        assert_eq!((of["live"].is_null(), &of["owner_admin"]), (of_b, &if of_b { json!("10.0.0.98:9091") } else { json!(null) }), "{of}");
    }
    assert_eq!(partitions.iter().map(|of| of["cursor"].as_u64().unwrap()).sum::<u64>(), 100);
    let right = async || {
        let list = (b.v1)("/groups").await;
        let of = &list["groups"][0];
        (json!([of["partitions"], of["owned"], of["lag"]]) == json!([12, 6, 0])).then_some(())
    };
    wait::until("b's list to say the same", TAKEOVER, right).await;
    let cursors = (b.v1)("/groups/g/cursors").await;
    assert!(cursors["cursors"].as_array().unwrap().iter().all(|of| of["owner"].is_string() && of["cursor"] == of["end"]), "{cursors}");
    a.stop().await;
    b.stop().await;
}

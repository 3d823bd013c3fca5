//! The coordinator on real `ZooKeeper`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use common::coordinator::conformance::Harness;
use common::coordinator::zookeeper::{AclMode, Ensemble, Metrics, Options};
use common::coordinator::{Birth, Claim, Commit, Coordinator, DoneSet, Log, Member, MemberGroup, Progress, ZooKeeperCoordinator, assign};
use common::ids::{Epoch, GroupName, GroupPartition, Offset, Partition, Topic};
use integration_tests::wait;
use integration_tests::zookeeper::ZooKeeper;
use integration_tests::zookeeper::tool::Tool;
use tokio::sync::Mutex;
use uuid::Uuid;

mod brokers;
mod conformance;
mod fleet;
mod giants;
mod interference;
mod limits;
mod lost_replies;
mod metrics;
mod pushers;
mod servers;
mod session;
mod sessions;

/// Long enough for a busy machine, short enough to wait for.
const SESSION: Duration = Duration::from_secs(4);

/// A server that tests share while any of them runs, and a path of its own in it.
struct World {
    servers: Arc<ZooKeeper>,
    chroot: String,
}

impl World {
    async fn fresh() -> Self {
        static SHARED: Mutex<Weak<ZooKeeper>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        let servers = match shared.upgrade() {
            Some(servers) => servers,
            None => Arc::new(ZooKeeper::start().await),
        };
        *shared = Arc::downgrade(&servers);
        Self { servers, chroot: format!("/test-{}", Uuid::new_v4()) }
    }

    fn tool(&self) -> Tool {
        Tool::connect(self.servers.addr(0))
    }

    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.chroot)
    }

    fn options(&self, servers: &str) -> Options {
        let ensemble = Ensemble::parse(&format!("{servers}{}", self.chroot)).unwrap();
        Options { ensemble, session_timeout: SESSION, digest: None, acl: AclMode::Open }
    }

    fn coordinator(&self) -> ZooKeeperCoordinator {
        open(self.options(&self.servers.connect_string()))
    }

    /// Joined as `instance`, with the group born at 0 in partitions 0 to 2.
    async fn member(&self, instance: &str) -> ZooKeeperCoordinator {
        let coordinator = self.coordinator();
        settle(&coordinator, instance).await;
        coordinator
    }

    fn cursor(&self) -> Option<String> {
        self.tool().get(&self.path("/consumers/g/offsets/t/0"))
    }

    fn owner(&self) -> Option<String> {
        self.tool().get(&self.path("/consumers/g/owners/t/0"))
    }

    async fn until_cursor(&self, text: &str) {
        wait::until(text, Duration::from_secs(10), async || (self.cursor().as_deref() == Some(text)).then_some(())).await;
    }
}

#[async_trait]
impl Harness for World {
    async fn open(&self) -> Arc<dyn Coordinator> {
        Arc::new(self.coordinator())
    }

    async fn set_cursor(&self, at: &GroupPartition, text: &str) {
        self.tool().put(&self.path(&format!("/consumers/{}/offsets/{}/{}", at.group, at.topic, at.partition)), text);
    }
}

/// Whose metrics nobody looks at.
fn open(options: Options) -> ZooKeeperCoordinator {
    ZooKeeperCoordinator::open(options, &Metrics::default())
}

async fn settle(coordinator: &ZooKeeperCoordinator, instance: &str) {
    coordinator.join(member(instance)).await.unwrap();
    let birth = Birth { topic_id: None, start: vec![Offset(0); 3] };
    coordinator.birth(&at().group, &at().topic, birth, &[log(); 3]).await.unwrap();
}

fn member(instance: &str) -> Member {
    let served = MemberGroup { topics: vec![Topic::new("t").unwrap()], config: "c0ffee".into() };
    let (host, version, admin) = ("host".into(), "0.1.0".into(), "127.0.0.1:9091".into());
    let groups = [("g".to_owned(), served)].into();
    Member { instance: instance.into(), proto: assign::PROTO, boot: Uuid::new_v4(), host, pid: 1, version, admin, groups, entered: 0 }
}

fn at() -> GroupPartition {
    GroupPartition { group: GroupName::new("g").unwrap(), topic: Topic::new("t").unwrap(), partition: Partition(0) }
}

fn log() -> Log {
    Log { topic_id: None, first: Offset(0), end: Offset(1000), past_end: None }
}

fn commit(epoch: Epoch, cursor: u64) -> Commit {
    commit_with(epoch, cursor, vec![])
}

fn commit_with(epoch: Epoch, cursor: u64, runs: Vec<std::ops::Range<u64>>) -> Commit {
    Commit {
        at: at(),
        epoch,
        progress: Progress { cursor: Offset(cursor), done: DoneSet::from_runs(runs).unwrap(), ..Progress::default() },
    }
}

async fn claimed(coordinator: &ZooKeeperCoordinator) -> Claim {
    coordinator.claim(&at(), log()).await.unwrap()
}

/// Tried again, as a keeper does, until it succeeds.
async fn claimed_within(coordinator: &ZooKeeperCoordinator, within: Duration) -> Claim {
    wait::until("claimed", within, async || coordinator.claim(&at(), log()).await.ok()).await
}

//! More partitions than one session may hold: another one is opened, and each is written under its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use common::coordinator::{Birth, ClaimError, Commit, CommitError, Coordinator, ZooKeeperCoordinator};
use common::ids::{GroupPartition, Partition, Topic};
use futures_util::{StreamExt, stream};
use integration_tests::relay::{Flow, Relay};
use integration_tests::wait;

use super::metrics::Scraped;
use super::{SESSION, World, at, commit, log, settle};

/// Of one session's ephemeral nodes.
const MAX_PATH_BYTES: usize = 512 * 1024;
/// Of names as long as they may be: more than one session holds, and less than two.
const PARTITIONS: u32 = 2000;
/// As many claims are under way as of a pusher that starts.
const AT_ONCE: usize = 256;

fn long(number: u32) -> GroupPartition {
    GroupPartition { topic: Topic::new(&"t".repeat(249)).unwrap(), partition: Partition(number), ..at() }
}

async fn claim(coordinator: &ZooKeeperCoordinator, partitions: impl Iterator<Item = u32>) -> Vec<Result<Commit, ClaimError>> {
    let claims = stream::iter(partitions).map(|number| async move {
        let claim = coordinator.claim(&long(number), log()).await?;
        Ok(Commit { at: long(number), ..commit(claim.epoch, 5) })
    });
    claims.buffered(AT_ONCE).collect().await
}

/// The ephemeral nodes of this world, by session.
pub(super) async fn ephemerals(world: &World, servers: &integration_tests::zookeeper::ZooKeeper) -> BTreeMap<String, BTreeSet<String>> {
    let mut sessions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut session = String::new();
    let dump = wait::until("the server's sessions", SESSION, async || servers.ask(0, "dump").await).await;
    for line in dump.lines() {
        match line.strip_prefix('\t') {
            Some(path) if path.starts_with(&world.chroot) => drop(sessions.entry(session.clone()).or_default().insert(path.to_owned())),
            Some(_) => {}
            None => session = line.trim_end_matches(':').to_owned(),
        }
    }
    sessions
}

pub(super) fn assert_bounded(sessions: &BTreeMap<String, BTreeSet<String>>) {
    for (session, paths) in sessions {
        let bytes: usize = paths.iter().map(String::len).sum();
        assert!(bytes <= MAX_PATH_BYTES, "{session}: {bytes} bytes in {} paths", paths.len());
    }
}

/// One process, whose second session can be cut off alone.
struct Scene {
    world: World,
    relay: Relay,
    one: ZooKeeperCoordinator,
    scraped: Scraped,
    commits: Vec<Commit>,
}

impl Scene {
    async fn new() -> Self {
        let world = World::fresh().await;
        let (scraped, metrics) = Scraped::new();
        let relay = Relay::start(world.servers.addr(0)).await;
        let one = ZooKeeperCoordinator::open(world.options(&relay.addr().to_string()), &metrics);
        settle(&one, "one").await;
        let birth = Birth { topic_id: None, start: Vec::new() };
        one.birth(&at().group, &long(0).topic, birth, &[]).await.unwrap();
        // The first session keeps its connection.
        relay.concern(1..u64::MAX);
        Self { world, relay, one, scraped, commits: Vec::new() }
    }

    /// Those that are not; why one of them could not be.
    async fn claim_all(&mut self) -> Option<String> {
        let owned: BTreeSet<u32> = self.commits.iter().map(|commit| commit.at.partition.0).collect();
        let (claimed, refused): (Vec<_>, Vec<_>) =
            claim(&self.one, (0..PARTITIONS).filter(|number| !owned.contains(number))).await.into_iter().partition(Result::is_ok);
        self.commits.extend(claimed.into_iter().flatten());
        refused.into_iter().find_map(Result::err).map(|error| error.to_string())
    }

    /// What is owned under the first session, which is in the fleet, and under the second.
    async fn shared_out(&self) -> (Vec<Commit>, Vec<Commit>) {
        let sessions = ephemerals(&self.world, &self.world.servers).await;
        assert_bounded(&sessions);
        assert_eq!(sessions.len(), 2, "{:?}", sessions.keys());
        let first = sessions.values().find(|paths| paths.contains(&self.world.path("/mqgate/fleet/one"))).unwrap();
        self.commits.iter().cloned().partition(|commit| first.contains(&self.owner(&commit.at)))
    }

    fn owner(&self, at: &GroupPartition) -> String {
        self.world.path(&format!("/consumers/{}/owners/{}/{}", at.group, at.topic, at.partition))
    }

    fn owner_of(&self, at: &GroupPartition) -> Option<String> {
        self.world.tool().get(&self.owner(at))
    }

    async fn stores(&self, commits: &[Commit], outcome: &Result<(), CommitError>) {
        for some in commits.chunks(500) {
            let stored = self.one.commit(some).await;
            assert!(stored.iter().all(|stored| stored == outcome), "{:?}", stored.iter().find(|stored| *stored != outcome));
        }
    }
}

#[tokio::test]
async fn what_one_session_may_not_hold_another_holds_and_each_is_written_under_its_own() {
    let mut scene = Scene::new().await;
    scene.relay.both(Flow::Hold);
    let reason = scene.claim_all().await.expect("one session holds them all");
    assert!(reason.contains("needs another session with ZooKeeper") && reason.contains("524288 bytes"), "{reason}");
    scene.relay.both(Flow::Pass);
    let start = Instant::now();
    while let Some(reason) = scene.claim_all().await {
        assert!(start.elapsed() < SESSION * 3, "{reason}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (first, second) = scene.shared_out().await;
    assert!((1500..1900).contains(&first.len()) && !second.is_empty(), "{} and {}", first.len(), second.len());
    scene.scraped.until("mqgate_zookeeper_sessions 2").await;
    scene.scraped.until("mqgate_zookeeper_connected 2").await;
    scene.stores(&scene.commits, &Ok(())).await;
    let epochs: Vec<_> = scene.commits.iter().map(|commit| (commit.at.clone(), commit.epoch)).collect();
    assert_eq!(scene.one.moved(&epochs).await, Ok(vec![]));
    let adopted = scene.one.adopt(&second[0].at, second[0].epoch, log()).await.unwrap();
    assert_eq!(scene.one.release(&Commit { epoch: adopted.epoch, ..second[0].clone() }).await, Ok(()));
    for commit in first.iter().take(1).chain(&second[1..]) {
        assert_eq!(scene.one.release(commit).await, Ok(()));
    }
    // There is room again in the first.
    scene.one.claim(&second[0].at, log()).await.unwrap();
    scene.scraped.until("mqgate_zookeeper_sessions 1").await;
    assert!(scene.one.missing().is_empty() && scene.one.lease().holds(), "a session that is closed is no session lost");
    scene.one.leave().await.unwrap();
    assert!(ephemerals(&scene.world, &scene.world.servers).await.is_empty());
}

/// The lease is of all sessions together: while one cannot show that it lives, nothing is attempted.
#[tokio::test]
async fn a_further_session_that_ends_alone_takes_its_partitions_with_it_and_no_others() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.claim_all().await, None);
    let (first, second) = scene.shared_out().await;
    scene.stores(&scene.commits, &Ok(())).await;
    let (lease, other) = (scene.one.lease(), scene.world.member("other").await);
    let lost = lease.losses();
    scene.relay.both(Flow::Hold);
    wait::until("the lease ends", SESSION, async || (!lease.holds()).then_some(())).await;
    let taken = &second[0].at;
    assert_eq!(scene.owner_of(taken).as_deref(), Some("one"), "before the session does");
    let claim = wait::until("another has it", SESSION * 2, async || other.claim(taken, log()).await.ok()).await;
    assert_eq!(claim.progress.cursor.0, 5);
    assert_eq!(other.claim(&first[0].at, log()).await, Err(ClaimError::Held("one".into())));
    assert!(!lease.holds() && lease.losses().sessions == lost.sessions, "only the servers say that a session is over");
    assert!(!scene.one.missing().is_empty());
    scene.relay.both(Flow::Pass);
    scene.relay.reset();
    wait::until("the lease holds again", SESSION * 3, async || (lease.losses().sessions > lost.sessions && lease.holds()).then_some(()))
        .await;
    scene.stores(&second, &Err(CommitError::EpochOver)).await;
    scene.stores(&first, &Ok(())).await;
    assert_eq!(scene.one.claim(taken, log()).await, Err(ClaimError::Held("other".into())));
    let again = wait::until("claimed again", SESSION, async || scene.one.claim(&second[1].at, log()).await.ok()).await;
    assert_eq!(again.progress.cursor.0, 5);
    scene.scraped.until("mqgate_zookeeper_sessions_lost_total 1").await;
    wait::until("nothing is missing", Duration::from_secs(5), async || scene.one.missing().is_empty().then_some(())).await;
}

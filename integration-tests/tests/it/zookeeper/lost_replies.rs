//! C61: the request arrives, the reply is lost.

use std::sync::Arc;
use std::time::Duration;

use common::coordinator::{CommitError, Coordinator, Replay, ReplayTarget, Replayed, ZooKeeperCoordinator};
use common::ids::{GroupPartition, Offset};
use integration_tests::relay::{Flow, Relay};
use integration_tests::wait;

use super::{World, at, claimed, commit, commit_with, log, open, settle};

/// Long enough to see at the servers what was done, and cut the connection before the reply.
const LATE_BY: Duration = Duration::from_millis(400);
const LATE: Flow = Flow::Delay(LATE_BY);

struct Scene {
    world: World,
    relay: Relay,
    coordinator: Arc<ZooKeeperCoordinator>,
}

impl Scene {
    async fn new() -> Self {
        let world = World::fresh().await;
        let relay = Relay::start(world.servers.addr(0)).await;
        let coordinator = Arc::new(open(world.options(&relay.addr().to_string())));
        settle(&coordinator, "one").await;
        Self { world, relay, coordinator }
    }

    fn heal(&self) {
        self.relay.to_client(Flow::Pass);
        self.relay.reset();
    }
}

#[tokio::test]
async fn a_commit_is_known_as_our_own() {
    let scene = Scene::new().await;
    let epoch = claimed(&scene.coordinator).await.epoch;
    scene.relay.to_client(Flow::Drop);
    let coordinator = scene.coordinator.clone();
    let committing = tokio::spawn(async move { coordinator.commit(&[commit_with(epoch, 57, vec![60..70])]).await });
    scene.world.until_cursor("57").await;
    scene.heal();
    assert_eq!(committing.await.unwrap(), [Ok(())]);
    assert_eq!(scene.coordinator.moved(&[(at(), epoch)]).await, Ok(vec![]));
    assert_eq!(scene.coordinator.commit(&[commit(epoch, 58)]).await, [Ok(())]);
    assert_eq!(scene.world.cursor().as_deref(), Some("58"));
}

#[tokio::test]
async fn many_partitions_of_one_commit_are_each_known_as_our_own() {
    let scene = Scene::new().await;
    let partition = |number| GroupPartition { partition: common::ids::Partition(number), ..at() };
    let mut commits = Vec::new();
    for number in 0..3 {
        let claim = scene.coordinator.claim(&partition(number), log()).await.unwrap();
        commits.push(common::coordinator::Commit { at: partition(number), ..commit(claim.epoch, 57) });
    }
    scene.relay.to_client(Flow::Drop);
    let (coordinator, sent) = (scene.coordinator.clone(), commits.clone());
    let committing = tokio::spawn(async move { coordinator.commit(&sent).await });
    scene.world.until_cursor("57").await;
    scene.world.tool().set(&scene.world.path("/consumers/g/offsets/t/1"), "99").unwrap();
    scene.heal();
    assert_eq!(committing.await.unwrap(), [Ok(()), Err(CommitError::Moved), Ok(())]);
}

#[tokio::test]
async fn another_writer_ahead_is_not_written_over() {
    let scene = Scene::new().await;
    let epoch = claimed(&scene.coordinator).await.epoch;
    scene.relay.to_client(Flow::Drop);
    let coordinator = scene.coordinator.clone();
    let committing = tokio::spawn(async move { coordinator.commit(&[commit(epoch, 57)]).await });
    scene.world.until_cursor("57").await;
    scene.world.tool().set(&scene.world.path("/consumers/g/offsets/t/0"), "99").unwrap();
    scene.heal();
    assert_eq!(committing.await.unwrap(), [Err(CommitError::Moved)]);
    assert_eq!(scene.world.cursor().as_deref(), Some("99"));
    assert_eq!(scene.coordinator.adopt(&at(), epoch, log()).await.unwrap().progress.cursor, Offset(99));
}

#[tokio::test]
async fn a_claim_is_known_as_our_own() {
    let scene = Scene::new().await;
    let former = claimed(&scene.coordinator).await.epoch;
    scene.coordinator.release(&commit(former, 3)).await.unwrap();
    scene.relay.to_client(LATE);
    let coordinator = scene.coordinator.clone();
    let claiming = tokio::spawn(async move { coordinator.claim(&at(), log()).await });
    wait::until("it is taken", Duration::from_secs(5), async || scene.world.owner()).await;
    scene.heal();
    let claim = claiming.await.unwrap().unwrap();
    assert_eq!(claim.progress.cursor, Offset(3));
    assert_eq!(scene.coordinator.moved(&[(at(), claim.epoch)]).await, Ok(vec![]));
    assert_eq!(scene.coordinator.commit(&[commit(claim.epoch, 4)]).await, [Ok(())]);
}

#[tokio::test]
async fn a_claim_that_nobody_waits_for_gives_the_partition_back() {
    let scene = Scene::new().await;
    let former = claimed(&scene.coordinator).await.epoch;
    scene.coordinator.release(&commit(former, 3)).await.unwrap();
    scene.relay.both(LATE);
    let nobody = tokio::time::timeout(LATE_BY, scene.coordinator.claim(&at(), log())).await;
    assert!(nobody.is_err());
    wait::until("it is taken", Duration::from_secs(10), async || scene.world.owner()).await;
    wait::until("and given back", Duration::from_secs(10), async || scene.world.owner().is_none().then_some(())).await;
}

#[tokio::test]
async fn a_release_is_known_as_our_own() {
    let scene = Scene::new().await;
    let epoch = claimed(&scene.coordinator).await.epoch;
    scene.relay.to_client(Flow::Drop);
    let coordinator = scene.coordinator.clone();
    let releasing = tokio::spawn(async move { coordinator.release(&commit(epoch, 57)).await });
    scene.world.until_cursor("57").await;
    assert_eq!(scene.world.owner(), None);
    scene.heal();
    assert_eq!(releasing.await.unwrap(), Ok(()));
    assert_eq!(claimed(&scene.coordinator).await.progress.cursor, Offset(57));
}

#[tokio::test]
async fn a_replay_is_known_as_our_own_and_done_once() {
    let scene = Scene::new().await;
    scene.coordinator.set_paused(&at().group, false).await.unwrap();
    let epoch = claimed(&scene.coordinator).await.epoch;
    assert_eq!(scene.coordinator.commit(&[commit(epoch, 57)]).await, [Ok(())]);
    let target = ReplayTarget { topic: at().topic, partition: at().partition, to: Offset(5), topic_id: None };
    let replay = Replay { group: at().group, id: "r".into(), asked_at: 1, targets: vec![target] };
    scene.relay.to_client(LATE);
    let (coordinator, asked) = (scene.coordinator.clone(), replay.clone());
    let replaying = tokio::spawn(async move { coordinator.replay(&asked).await });
    scene.world.until_cursor("5").await;
    scene.heal();
    assert_eq!(replaying.await.unwrap(), Ok(Replayed::Moved(vec![(Some(Offset(57)), Offset(5))])));
    assert_eq!(scene.coordinator.replay(&replay).await, Ok(Replayed::Repeated));
    assert_eq!(scene.coordinator.control(&at().group).await.unwrap().replays, ["r"]);
}

#[tokio::test]
async fn a_first_claim_that_creates_the_cursor_is_known_as_our_own() {
    let scene = Scene::new().await;
    // The way to it is made by its neighbour.
    claimed(&scene.coordinator).await;
    let first = GroupPartition { partition: common::ids::Partition(1), ..at() };
    scene.relay.to_client(LATE);
    let (coordinator, claims) = (scene.coordinator.clone(), first.clone());
    let claiming = tokio::spawn(async move { coordinator.claim(&claims, log()).await });
    let created = scene.world.path("/consumers/g/offsets/t/1");
    wait::until("it is created", Duration::from_secs(10), async || scene.world.tool().get(&created)).await;
    scene.heal();
    let claim = claiming.await.unwrap().unwrap();
    assert_eq!(claim.progress.cursor, Offset(0));
    assert_eq!(scene.coordinator.moved(&[(first, claim.epoch)]).await, Ok(vec![]));
}

#[tokio::test]
async fn a_change_of_what_is_served_and_its_end_are_known_as_our_own() {
    let scene = Scene::new().await;
    let fleet = scene.world.path("/mqgate/fleet/one");
    let before = scene.world.tool().get(&fleet).unwrap();
    scene.relay.to_client(LATE);
    let coordinator = scene.coordinator.clone();
    let joining = tokio::spawn(async move { coordinator.join(super::member("one")).await });
    let tool = || scene.world.tool().get(&fleet);
    wait::until("it is changed", Duration::from_secs(10), async || (tool().as_ref() != Some(&before)).then_some(())).await;
    scene.heal();
    assert_eq!(joining.await.unwrap(), Ok(()));
    assert_eq!(scene.coordinator.members().await.unwrap().len(), 1);
    scene.relay.to_client(LATE);
    let coordinator = scene.coordinator.clone();
    let leaving = tokio::spawn(async move { coordinator.leave().await });
    wait::until("it is gone", Duration::from_secs(10), async || tool().is_none().then_some(())).await;
    scene.heal();
    assert_eq!(leaving.await.unwrap(), Ok(()));
}

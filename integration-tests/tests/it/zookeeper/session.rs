//! C59: a session that is cut off, and one that is over.

use std::time::Duration;

use common::coordinator::{ClaimError, CommitError, Coordinator, ZooKeeperCoordinator};
use integration_tests::relay::{Flow, Relay};
use integration_tests::wait;
use integration_tests::zookeeper::ZooKeeper;

use super::{SESSION, World, at, claimed, claimed_within, commit, log, open, settle};

async fn behind_a_relay(world: &World) -> (Relay, ZooKeeperCoordinator) {
    let relay = Relay::start(world.servers.addr(0)).await;
    let coordinator = open(world.options(&relay.addr().to_string()));
    settle(&coordinator, "cut").await;
    (relay, coordinator)
}

#[tokio::test]
async fn a_third_of_the_session_timeout_away_is_not_noticed() {
    let world = World::fresh().await;
    let (relay, coordinator) = behind_a_relay(&world).await;
    let epoch = claimed(&coordinator).await.epoch;
    let lease = coordinator.lease();
    relay.both(Flow::Hold);
    let start = std::time::Instant::now();
    while start.elapsed() < SESSION / 3 {
        assert!(lease.holds(), "after {:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    relay.both(Flow::Pass);
    assert_eq!(coordinator.commit(&[commit(epoch, 7)]).await, [Ok(())]);
    assert!(lease.holds());
}

#[tokio::test]
async fn a_connection_that_is_reset_is_made_again_on_the_same_session() {
    let world = World::fresh().await;
    let (relay, coordinator) = behind_a_relay(&world).await;
    let epoch = claimed(&coordinator).await.epoch;
    for cursor in 1..10 {
        relay.reset();
        assert_eq!(coordinator.commit(&[commit(epoch, cursor)]).await, [Ok(())]);
        assert!(coordinator.lease().holds());
    }
    assert_eq!(world.cursor().as_deref(), Some("9"));
}

#[tokio::test]
async fn an_idle_member_shows_by_writes_that_it_lives() {
    let world = World::fresh().await;
    let (_relay, coordinator) = behind_a_relay(&world).await;
    let start = std::time::Instant::now();
    while start.elapsed() < SESSION * 3 / 2 {
        assert!(coordinator.lease().holds(), "after {:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_lease_ends_before_the_session_and_another_takes_over() {
    let world = World::fresh().await;
    let (relay, cut) = behind_a_relay(&world).await;
    let other = world.member("other").await;
    let old = claimed(&cut).await.epoch;
    assert_eq!(cut.commit(&[commit(old, 41)]).await, [Ok(())]);
    assert_eq!(other.claim(&at(), log()).await, Err(ClaimError::Held("cut".into())));
    relay.both(Flow::Hold);
    let lease = cut.lease();
    wait::until("the lease ends", SESSION, async || (!lease.holds()).then_some(())).await;
    assert_eq!(world.owner().as_deref(), Some("cut"), "while the server still has the session");
    let claim = claimed_within(&other, SESSION + Duration::from_secs(3)).await;
    assert_eq!(claim.progress.cursor.0, 41);
    assert!(claim.epoch > old);
    assert_eq!(other.commit(&[commit(claim.epoch, 50)]).await, [Ok(())]);
    // The library's own clock has long given the session up; only the server's refusal counts.
    relay.both(Flow::Pass);
    relay.reset();
    wait::until("it is in the fleet again", SESSION * 2, async || lease.holds().then_some(())).await;
    assert_eq!(cut.commit(&[commit(old, 99)]).await, [Err(CommitError::EpochOver)]);
    assert_eq!(cut.moved(&[(at(), old)]).await, Ok(vec![at()]));
    assert_eq!(cut.adopt(&at(), old, log()).await, Err(ClaimError::EpochOver));
    assert_eq!(cut.claim(&at(), log()).await, Err(ClaimError::Held("other".into())));
    assert_eq!(world.cursor().as_deref(), Some("50"));
    let members = cut.members().await.unwrap();
    assert_eq!(members.iter().map(|member| member.instance.as_str()).collect::<Vec<_>>(), ["cut", "other"]);
}

#[tokio::test]
async fn a_session_that_outlived_the_clients_own_patience_is_taken_up_again() {
    let world = World::fresh().await;
    let mut servers = ZooKeeper::start().await;
    let coordinator = open(world.options(&servers.connect_string()));
    settle(&coordinator, "one").await;
    let epoch = claimed(&coordinator).await.epoch;
    // A server that is started again gives every session its whole time anew.
    servers.kill(0);
    let lease = coordinator.lease();
    wait::until("the lease ends", SESSION, async || (!lease.holds()).then_some(())).await;
    tokio::time::sleep(SESSION * 2).await;
    servers.restart(0).await;
    wait::until("the lease holds again", Duration::from_secs(5), async || lease.holds().then_some(())).await;
    assert_eq!(coordinator.commit(&[commit(epoch, 3)]).await, [Ok(())], "still the owner");
}

#[tokio::test]
async fn an_ensemble_without_its_majority_pauses_its_members_and_they_resume() {
    let world = World::fresh().await;
    let mut servers = ZooKeeper::ensemble(3).await;
    let coordinator = open(world.options(&servers.connect_string()));
    settle(&coordinator, "one").await;
    let epoch = claimed(&coordinator).await.epoch;
    servers.kill(0);
    servers.kill(1);
    let lease = coordinator.lease();
    wait::until("the lease ends", SESSION, async || (!lease.holds()).then_some(())).await;
    tokio::time::sleep(SESSION).await;
    servers.spawn(0);
    servers.restart(1).await;
    wait::until("the lease holds again", SESSION * 3, async || lease.holds().then_some(())).await;
    match coordinator.commit(&[commit(epoch, 3)]).await.remove(0) {
        Ok(()) => {}
        Err(over) => {
            assert_eq!(over, CommitError::EpochOver);
            claimed_within(&coordinator, SESSION).await;
        }
    }
}

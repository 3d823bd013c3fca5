//! Nodes set and deleted by somebody else, under traffic.

use common::coordinator::{ClaimError, Commit, CommitError, Coordinator};
use common::ids::{GroupPartition, Offset, Partition};
use integration_tests::wait;

use super::{SESSION, World, at, claimed, commit, commit_with, log};

#[tokio::test]
async fn a_foreign_set_is_adopted_and_takes_the_done_set_its_worth() {
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    let epoch = claimed(&coordinator).await.epoch;
    assert_eq!(coordinator.commit(&[commit_with(epoch, 20, vec![30..40])]).await, [Ok(())]);
    assert_eq!(coordinator.moved(&[(at(), epoch)]).await, Ok(vec![]));
    // To exactly the value that stands.
    world.tool().set(&world.path("/consumers/g/offsets/t/0"), "20").unwrap();
    assert_eq!(coordinator.moved(&[(at(), epoch)]).await, Ok(vec![at()]));
    assert_eq!(coordinator.commit(&[commit(epoch, 60)]).await, [Err(CommitError::Moved)]);
    let adopted = coordinator.adopt(&at(), epoch, log()).await.unwrap();
    assert!(adopted.progress.cursor == Offset(20) && adopted.progress.done.is_empty() && adopted.epoch > epoch);
    assert_eq!(coordinator.commit(&[commit(adopted.epoch, 21)]).await, [Ok(())]);
}

#[tokio::test]
async fn cursor_and_done_set_that_were_deleted_are_made_again_from_memory() {
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    let epoch = claimed(&coordinator).await.epoch;
    let nodes = ["offsets", "done"].map(|what| world.path(&format!("/consumers/g/{what}/t/0")));
    for (cursor, deleted) in (20..).zip([&nodes[..1], &nodes[1..], &nodes[..]]) {
        deleted.iter().for_each(|path| world.tool().delete(path).unwrap());
        assert_eq!(coordinator.commit(&[commit_with(epoch, cursor, vec![50..60])]).await, [Ok(())]);
        assert_eq!(world.cursor(), Some(cursor.to_string()));
        assert_eq!(coordinator.moved(&[(at(), epoch)]).await, Ok(vec![]));
    }
    // Also where nothing is committed: it is seen, and adopted where it was.
    world.tool().delete(&nodes[0]).unwrap();
    assert_eq!(coordinator.moved(&[(at(), epoch)]).await, Ok(vec![at()]));
    let adopted = coordinator.adopt(&at(), epoch, log()).await.unwrap();
    assert_eq!((adopted.progress.cursor, adopted.progress.done.runs()), (Offset(22), &[50..60][..]));
}

#[tokio::test]
async fn a_deleted_owner_ends_the_epoch_and_it_is_claimed_anew() {
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    let epoch = claimed(&coordinator).await.epoch;
    assert_eq!(coordinator.commit(&[commit(epoch, 9)]).await, [Ok(())]);
    world.tool().delete(&world.path("/consumers/g/owners/t/0")).unwrap();
    assert_eq!(coordinator.moved(&[(at(), epoch)]).await, Ok(vec![at()]));
    assert_eq!(coordinator.adopt(&at(), epoch, log()).await, Err(ClaimError::EpochOver));
    let claim = claimed(&coordinator).await;
    assert_eq!(claim.progress.cursor, Offset(9));
    assert!(claim.epoch > epoch);
}

#[tokio::test]
async fn a_deleted_fleet_node_is_made_again() {
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    let epoch = claimed(&coordinator).await.epoch;
    let path = world.path("/mqgate/fleet/one");
    world.tool().delete(&path).unwrap();
    wait::until("it is back", SESSION, async || world.tool().get(&path)).await;
    assert!(coordinator.lease().holds());
    assert_eq!(coordinator.commit(&[commit(epoch, 9)]).await, [Ok(())], "and what it owns is still its own");
}

#[tokio::test]
async fn garbage_in_a_cursor_stops_its_partition_until_it_is_corrected() {
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    let path = world.path("/consumers/g/offsets/t/0");
    for garbage in ["", "-1", "12\n", "{\"offset\":3}"] {
        world.tool().put(&path, garbage);
        assert_eq!(coordinator.claim(&at(), log()).await, Err(ClaimError::UnreadableCursor(garbage.into())));
        assert_eq!(world.owner(), None);
    }
    world.tool().put(&path, "12");
    assert_eq!(claimed(&coordinator).await.progress.cursor, Offset(12));
}

#[tokio::test]
async fn of_many_partitions_committed_at_once_only_the_moved_one_is_left_out() {
    const PARTITIONS: u32 = 150;
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    let partition = |number| GroupPartition { partition: Partition(number), ..at() };
    let claims = (0..PARTITIONS).map(|number| {
        let (coordinator, at) = (&coordinator, partition(number));
        async move { coordinator.claim(&at, log()).await.unwrap() }
    });
    let claims = futures_util::future::join_all(claims).await;
    let commits: Vec<Commit> =
        (0..).zip(&claims).map(|(number, claim)| Commit { at: partition(number), ..commit(claim.epoch, 5) }).collect();
    world.tool().set(&world.path("/consumers/g/offsets/t/77"), "3").unwrap();
    for (number, stored) in coordinator.commit(&commits).await.into_iter().enumerate() {
        assert_eq!(stored, if number == 77 { Err(CommitError::Moved) } else { Ok(()) }, "partition {number}");
    }
    let owned: Vec<_> = commits.iter().map(|commit| (commit.at.clone(), commit.epoch)).collect();
    assert_eq!(coordinator.moved(&owned).await, Ok(vec![partition(77)]));
}

//! Nodes set and deleted by somebody else, under traffic.

use std::sync::Arc;

use common::coordinator::{Began, ClaimError, Commit, CommitError, Coordinator, Log, assign};
use common::ids::{GroupPartition, Offset, Partition, TopicId};
use integration_tests::wait;
use integration_tests::zookeeper::tool::Kind;

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

#[tokio::test]
async fn a_cursor_moved_forward_and_back_is_adopted_like_any_other() {
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    let epoch = claimed(&coordinator).await.epoch;
    assert_eq!(coordinator.commit(&[commit_with(epoch, 20, vec![30..40])]).await, [Ok(())]);
    let path = world.path("/consumers/g/offsets/t/0");
    ["99", "20"].iter().for_each(|text| world.tool().set(&path, text).unwrap());
    assert_eq!(coordinator.commit(&[commit(epoch, 45)]).await, [Err(CommitError::Moved)]);
    assert_eq!(world.cursor().as_deref(), Some("20"));
    let adopted = coordinator.adopt(&at(), epoch, log()).await.unwrap();
    assert!(adopted.progress.cursor == Offset(20) && adopted.progress.done.is_empty());
}

#[tokio::test]
async fn a_group_pointed_at_another_cluster_begins_at_the_first_record_there() {
    let world = World::fresh().await;
    let (here, there) = ([1, 2]).map(|id| Log { topic_id: Some(TopicId(uuid::Uuid::from_u128(id))), ..log() }).into();
    let coordinator = world.member("one").await;
    let epoch = coordinator.claim(&at(), here).await.unwrap().epoch;
    assert_eq!(coordinator.release(&commit_with(epoch, 20, vec![30..40])).await, Ok(()));
    let claim = coordinator.claim(&at(), Log { first: Offset(7), ..there }).await.unwrap();
    assert_eq!((claim.progress.cursor, claim.began), (Offset(7), Began::TopicRecreated { abandoned: Offset(20) }));
    assert!(claim.progress.done.is_empty());
}

#[tokio::test]
async fn an_owner_node_of_our_name_but_of_another_session_is_not_ours() {
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    claimed(&coordinator).await;
    let second = GroupPartition { partition: Partition(1), ..at() };
    let mut older = world.tool();
    older.create(&world.path("/consumers/g/owners/t/1"), "one", Kind::Ephemeral).unwrap();
    assert_eq!(coordinator.claim(&second, log()).await, Err(ClaimError::Held("one".into())));
    drop(older);
    wait::until("it is ours", SESSION, async || coordinator.claim(&second, log()).await.ok()).await;
}

#[tokio::test]
async fn a_node_of_the_fleet_that_cannot_be_read_breaks_nobody() {
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    let mut newer = world.tool();
    newer.create(&world.path("/mqgate/fleet/garbage"), "\u{1}", Kind::Ephemeral).unwrap();
    let two = serde_json::json!({"proto": 2, "boot": uuid::Uuid::new_v4(), "groups": {"g": {"topics": ["t"], "config": "c", "weight": 3}}, "zone": "a"});
    newer.create(&world.path("/mqgate/fleet/newer"), &two.to_string(), Kind::Ephemeral).unwrap();
    let members = coordinator.members().await.unwrap();
    assert_eq!(members.iter().map(|member| (member.instance.as_str(), member.proto)).collect::<Vec<_>>(), [("newer", 2), ("one", 1)]);
    let owners = assign::owners(&members, &at().group, &at().topic, 12);
    assert_eq!(owners.iter().filter(|owner| **owner == "one").count(), 6);
    claimed(&coordinator).await;
}

#[tokio::test]
async fn everything_of_a_group_deleted_under_traffic_costs_no_progress() {
    let world = World::fresh().await;
    let coordinator = Arc::new(world.member("one").await);
    let mut epoch = claimed(&coordinator).await.epoch;
    for cursor in 1..60 {
        if cursor % 20 == 0 {
            let nodes = ["offsets/t/0", "offsets/t", "offsets", "done/t/0", "done/t", "done"];
            // A commit may make them again in between.
            for node in nodes {
                let _ = world.tool().delete(&world.path(&format!("/consumers/g/{node}")));
            }
        }
        if cursor == 30 {
            world.tool().delete(&world.path("/consumers/g/owners/t/0")).unwrap();
            assert_eq!(coordinator.commit(&[commit(epoch, cursor)]).await, [Ok(())], "nobody else wrote the pair");
            assert_eq!(coordinator.moved(&[(at(), epoch)]).await, Ok(vec![at()]));
            assert_eq!(coordinator.adopt(&at(), epoch, log()).await, Err(ClaimError::EpochOver));
            epoch = claimed(&coordinator).await.epoch;
        }
        assert_eq!(coordinator.commit(&[commit(epoch, cursor)]).await, [Ok(())], "{cursor}");
        assert_eq!(world.cursor(), Some(cursor.to_string()));
    }
}

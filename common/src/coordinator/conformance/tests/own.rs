//! Owning, committing, letting go.

use super::super::*;
use crate::coordinator::{Began, ClaimError, CommitError};

pub async fn a_held_partition_is_not_claimed_again(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    assert_eq!(coordinator.claim(&scene.at(0), log(0, 100)).await, Err(ClaimError::Held("here".into())));
    assert_eq!(coordinator.commit(&[scene.commit(0, epoch, progress(11, []))]).await, [Ok(())], "and its owner goes on");
}

pub async fn groups_do_not_affect_each_other(harness: &dyn Harness) {
    let (one, other) = (Scene::new("g", "t"), Scene::new("g2", "t"));
    let coordinator = member_of(harness).await;
    one.born(&*coordinator).await;
    other.born(&*coordinator).await;
    let epoch = one.claimed(&*coordinator, 0).await.epoch;
    other.claimed(&*coordinator, 0).await;
    coordinator.commit(&[one.commit(0, epoch, progress(77, []))]).await.remove(0).unwrap();
    coordinator.replay(&one.replay("r", [(0, 3)])).await.unwrap();
    assert_eq!(other.stands(&*coordinator, 0).await, Some(progress(10, [])));
    assert_eq!(coordinator.control(&other.group).await.unwrap().replays, Vec::<String>::new());
}

pub async fn a_commit_moves_cursor_and_done_set_together(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    for moved in [progress(11, [20..25]), progress(11, [20..26, 30..31]), progress(26, [])] {
        assert_eq!(coordinator.commit(&[scene.commit(0, epoch, moved.clone())]).await, [Ok(())]);
        assert_eq!(scene.stands(&*coordinator, 0).await, Some(moved));
    }
}

pub async fn commits_are_answered_each_on_its_own(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let (zero, two) = (scene.claimed(&*coordinator, 0).await.epoch, scene.claimed(&*coordinator, 2).await.epoch);
    let commits =
        [scene.commit(0, zero, progress(20, [])), scene.commit(1, zero, progress(30, [])), scene.commit(2, two, progress(40, []))];
    assert_eq!(coordinator.commit(&commits).await, [Ok(()), Err(CommitError::EpochOver), Ok(())]);
    let stand: Vec<_> = coordinator.standing(&[2, 1, 0].map(|p| scene.at(p))).await.unwrap().into_iter().map(|s| s.progress).collect();
    assert_eq!(stand, [Some(progress(40, [])), None, Some(progress(20, []))]);
    assert_eq!(coordinator.commit(&[]).await, []);
}

pub async fn an_old_epoch_commits_nothing(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let old = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.release(&scene.commit(0, old, progress(20, []))).await.unwrap();
    assert_eq!(coordinator.commit(&[scene.commit(0, old, progress(99, []))]).await, [Err(CommitError::EpochOver)]);
    scene.claimed(&*coordinator, 0).await;
    assert_eq!(coordinator.commit(&[scene.commit(0, old, progress(99, []))]).await, [Err(CommitError::EpochOver)]);
    assert_eq!(scene.stands(&*coordinator, 0).await, Some(progress(20, [])));
}

pub async fn a_release_keeps_the_done_set(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.release(&scene.commit(0, epoch, progress(20, [25..60, 70..71]))).await.unwrap();
    let claim = scene.claimed(&*coordinator, 0).await;
    assert_eq!((claim.progress, claim.began), (progress(20, [25..60, 70..71]), Began::AtCursor));
}

pub async fn an_old_epoch_releases_nothing(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let old = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.release(&scene.commit(0, old, progress(20, []))).await.unwrap();
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    assert_eq!(coordinator.release(&scene.commit(0, old, progress(99, []))).await, Err(CommitError::EpochOver));
    assert_eq!(coordinator.commit(&[scene.commit(0, epoch, progress(21, []))]).await, [Ok(())]);
}

pub async fn epochs_strictly_grow_also_over_restarts(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let mut epochs = Vec::new();
    for life in 0..3 {
        let coordinator = member_of(harness).await;
        scene.born(&*coordinator).await;
        let claimed = scene.claimed(&*coordinator, 0).await.epoch;
        coordinator.replay(&scene.replay(&format!("r{life}"), [(0, 5)])).await.unwrap();
        let adopted = coordinator.adopt(&scene.at(0), claimed, log(0, 100)).await.unwrap().epoch;
        epochs.extend([claimed, adopted]);
        if life == 0 {
            coordinator.release(&scene.commit(0, adopted, progress(20, []))).await.unwrap();
        }
    }
    assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "{epochs:?}");
}

pub async fn a_crash_keeps_what_was_committed(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.commit(&[scene.commit(0, epoch, progress(20, [25..60]))]).await.remove(0).unwrap();
    drop(coordinator);
    let coordinator = member_of(harness).await;
    let claim = scene.claimed(&*coordinator, 0).await;
    assert_eq!((claim.progress, claim.began), (progress(20, [25..60]), Began::AtCursor));
    assert_eq!(coordinator.commit(&[scene.commit(0, epoch, progress(99, []))]).await, [Err(CommitError::EpochOver)]);
}

pub async fn members_are_those_who_joined(harness: &dyn Harness) {
    let coordinator = harness.open().await;
    assert_eq!(coordinator.members().await, Ok(vec![]));
    let first = member("here");
    coordinator.join(first.clone()).await.unwrap();
    let entered = coordinator.members().await.unwrap()[0].entered;
    assert_eq!(coordinator.members().await, Ok(vec![Member { entered, ..first.clone() }]));
    let changed = Member { admin: "127.0.0.1:1".into(), ..first };
    coordinator.join(changed.clone()).await.unwrap();
    let anew = coordinator.members().await.unwrap()[0].entered;
    assert_eq!(coordinator.members().await, Ok(vec![Member { entered: anew, ..changed }]));
    assert!(entered == 0 || anew > entered, "{anew} after {entered}");
}

pub async fn what_nobody_owns_is_known_and_a_claim_leaves_its_mark(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let vacant = async || coordinator.vacant(&scene.group, &scene.topic, 3).await.unwrap();
    let before = vacant().await;
    assert_eq!(before.iter().map(|vacant| vacant.partition.0).collect::<Vec<_>>(), [0, 1, 2]);
    let epoch = scene.claimed(&*coordinator, 1).await.epoch;
    assert_eq!(vacant().await.iter().map(|vacant| vacant.partition.0).collect::<Vec<_>>(), [0, 2]);
    coordinator.release(&scene.commit(1, epoch, progress(10, []))).await.unwrap();
    let after = vacant().await;
    assert!(after[1].partition == before[1].partition && after[1].mark != before[1].mark, "{before:?} {after:?}");
}

pub async fn who_withdraws_keeps_what_it_owns(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let (zero, one) = (scene.claimed(&*coordinator, 0).await.epoch, scene.claimed(&*coordinator, 1).await.epoch);
    coordinator.withdraw().await.unwrap();
    assert_eq!(coordinator.members().await, Ok(vec![]));
    assert!(matches!(coordinator.claim(&scene.at(2), log(0, 100)).await, Err(ClaimError::Coordinator(_))), "and takes nothing more");
    assert!(coordinator.lease().holds());
    assert_eq!(coordinator.commit(&[scene.commit(0, zero, progress(20, []))]).await, [Ok(())]);
    coordinator.replay(&scene.replay("r", [(1, 5)])).await.unwrap();
    let adopted = coordinator.adopt(&scene.at(1), one, log(0, 100)).await.unwrap();
    for (partition, epoch) in [(0, zero), (1, adopted.epoch)] {
        assert_eq!(coordinator.release(&scene.commit(partition, epoch, progress(30, []))).await, Ok(()));
    }
    coordinator.leave().await.unwrap();
    coordinator.join(member("here")).await.unwrap();
    assert_eq!(scene.claimed(&*coordinator, 0).await.progress, progress(30, []));
}

pub async fn leaving_gives_everything_up(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.leave().await.unwrap();
    assert_eq!(coordinator.members().await, Ok(vec![]));
    assert_eq!(coordinator.commit(&[scene.commit(0, epoch, progress(99, []))]).await, [Err(CommitError::EpochOver)]);
    assert!(matches!(coordinator.claim(&scene.at(0), log(0, 100)).await, Err(ClaimError::Coordinator(_))), "only members own");
    coordinator.join(member("here")).await.unwrap();
    assert_eq!(scene.claimed(&*coordinator, 0).await.progress, progress(10, []));
}

pub async fn the_owner_is_named(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    let owner = async || coordinator.standing(&[scene.at(0)]).await.unwrap().remove(0).owner;
    assert_eq!(owner().await, Some("here".into()));
    coordinator.release(&scene.commit(0, epoch, progress(10, []))).await.unwrap();
    assert_eq!(owner().await, None);
}

pub async fn the_lease_of_a_member_holds(harness: &dyn Harness) {
    let coordinator = member_of(harness).await;
    assert!(coordinator.lease().holds());
    assert_eq!(coordinator.missing(), Vec::<String>::new());
}

//! Moving cursors on purpose.

use super::super::*;
use crate::coordinator::control::{MAX_REPLAYS, MAX_TARGETS};
use crate::coordinator::{Began, ClaimError, CommitError, CoordinatorError, Replayed, Tries};

fn moved(from_to: impl IntoIterator<Item = (Option<u64>, u64)>) -> Result<Replayed, CoordinatorError> {
    Ok(Replayed::Moved(from_to.into_iter().map(|(from, to)| (from.map(Offset), Offset(to))).collect()))
}

pub async fn a_replay_moves_the_cursor_and_empties_the_done_set(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 1).await.epoch;
    coordinator.commit(&[scene.commit(1, epoch, progress(40, [45..60]))]).await.remove(0).unwrap();
    assert_eq!(coordinator.replay(&scene.replay("r", [(1, 15)])).await, moved([(Some(40), 15)]));
    assert_eq!(scene.stands(&*coordinator, 1).await, Some(progress(15, [])));
    assert_eq!(coordinator.control(&scene.group).await.unwrap().replays, ["r"]);
    let claim = coordinator.adopt(&scene.at(1), epoch, log(0, 100)).await.unwrap();
    assert_eq!((claim.progress, claim.began), (progress(15, []), Began::AtCursor));
}

pub async fn a_replay_to_exactly_the_old_value_is_one(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.commit(&[scene.commit(0, epoch, progress(40, [41..60]))]).await.remove(0).unwrap();
    assert_eq!(coordinator.replay(&scene.replay("r", [(0, 40)])).await, moved([(Some(40), 40)]));
    assert_eq!(coordinator.moved(&[(scene.at(0), epoch)]).await, Ok(vec![scene.at(0)]));
    assert_eq!(coordinator.commit(&[scene.commit(0, epoch, progress(60, []))]).await, [Err(CommitError::Moved)]);
    assert_eq!(coordinator.adopt(&scene.at(0), epoch, log(0, 100)).await.unwrap().progress, progress(40, []));
}

pub async fn a_replay_is_done_once_for_an_id(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    assert_eq!(coordinator.replay(&scene.replay("r", [(0, 15)])).await, moved([(None, 15)]));
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.commit(&[scene.commit(0, epoch, progress(33, []))]).await.remove(0).unwrap();
    assert_eq!(coordinator.replay(&scene.replay("r", [(0, 15)])).await, Ok(Replayed::Repeated));
    assert_eq!(scene.stands(&*coordinator, 0).await, Some(progress(33, [])));
    assert_eq!(coordinator.moved(&[(scene.at(0), epoch)]).await, Ok(vec![]));
    drop(coordinator);
    assert_eq!(harness.open().await.replay(&scene.replay("r", [(0, 15)])).await, Ok(Replayed::Repeated), "also after a restart");
}

pub async fn sixteen_replays_are_remembered(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    for n in 0..=MAX_REPLAYS {
        coordinator.replay(&scene.replay(&n.to_string(), [(0, 15)])).await.unwrap();
    }
    assert_eq!(coordinator.replay(&scene.replay("1", [(0, 3)])).await, Ok(Replayed::Repeated));
    assert_eq!(coordinator.replay(&scene.replay("0", [(0, 3)])).await, moved([(Some(15), 3)]));
}

pub async fn no_late_commit_passes_a_replay(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let (old, other) = (scene.claimed(&*coordinator, 0).await.epoch, scene.claimed(&*coordinator, 1).await.epoch);
    coordinator.replay(&scene.replay("r", [(0, 3)])).await.unwrap();
    let late = [scene.commit(0, old, progress(50, [])), scene.commit(1, other, progress(50, []))];
    assert_eq!(coordinator.commit(&late).await, [Err(CommitError::Moved), Ok(())]);
    let owned = [(scene.at(0), old), (scene.at(1), other)];
    assert_eq!(coordinator.moved(&owned).await, Ok(vec![scene.at(0)]));
    let adopted = coordinator.adopt(&scene.at(0), old, log(0, 100)).await.unwrap();
    assert_eq!(adopted.progress, progress(3, []));
    assert!(adopted.epoch > old);
    assert_eq!(coordinator.moved(&owned).await, Ok(vec![]));
    assert_eq!(coordinator.commit(&[scene.commit(0, old, progress(50, []))]).await, [Err(CommitError::EpochOver)]);
    assert_eq!(coordinator.commit(&[scene.commit(0, adopted.epoch, progress(4, []))]).await, [Ok(())]);
    assert_eq!(scene.stands(&*coordinator, 0).await, Some(progress(4, [])));
}

pub async fn no_late_release_passes_a_replay(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.replay(&scene.replay("r", [(0, 3)])).await.unwrap();
    assert_eq!(coordinator.release(&scene.commit(0, epoch, progress(50, []))).await, Err(CommitError::Moved));
    let adopted = coordinator.adopt(&scene.at(0), epoch, log(0, 100)).await.unwrap();
    coordinator.release(&scene.commit(0, adopted.epoch, adopted.progress)).await.unwrap();
    assert_eq!(scene.claimed(&*coordinator, 0).await.progress, progress(3, []));
}

pub async fn the_last_of_two_replays_wins(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    assert_eq!(coordinator.replay(&scene.replay("a", [(0, 50)])).await, moved([(Some(10), 50)]));
    assert_eq!(coordinator.replay(&scene.replay("b", [(0, 20)])).await, moved([(Some(50), 20)]));
    assert_eq!(coordinator.adopt(&scene.at(0), epoch, log(0, 100)).await.unwrap().progress, progress(20, []));
}

pub async fn a_replay_stands_without_an_owner_and_over_a_restart(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.commit(&[scene.commit(0, epoch, progress(60, [70..80]))]).await.remove(0).unwrap();
    assert_eq!(coordinator.replay(&scene.replay("r", [(0, 12), (1, 13)])).await, moved([(Some(60), 12), (None, 13)]));
    drop(coordinator);
    let coordinator = member_of(harness).await;
    assert_eq!(scene.claimed(&*coordinator, 0).await.progress, progress(12, []));
    assert_eq!(scene.claimed(&*coordinator, 1).await.progress, progress(13, []));
}

pub async fn a_replay_begins_where_there_was_no_cursor(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    assert_eq!(coordinator.replay(&scene.replay("r", [(2, 30)])).await, moved([(None, 30)]));
    let claim = scene.claimed(&*coordinator, 2).await;
    assert_eq!((claim.progress, claim.began), (progress(30, []), Began::AtCursor));
}

pub async fn too_large_a_replay_moves_nothing(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    let too_many = scene.replay("r", (0..=MAX_TARGETS as u32).map(|partition| (partition, 1)));
    let Err(CoordinatorError::Refused(reason)) = coordinator.replay(&too_many).await else { panic!("it was not refused") };
    assert!(reason.contains("t (2001 partitions)"), "{reason}");
    assert_eq!(scene.stands(&*coordinator, 0).await, None);
    assert_eq!(coordinator.control(&scene.group).await.unwrap().replays, Vec::<String>::new());
    let most = scene.replay("r", (0..MAX_TARGETS as u32).map(|partition| (partition, 1)));
    assert_eq!(coordinator.replay(&most).await, moved((0..MAX_TARGETS).map(|_| (None, 1))));
}

pub async fn an_old_epoch_adopts_nothing(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let old = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.release(&scene.commit(0, old, progress(20, []))).await.unwrap();
    assert_eq!(coordinator.adopt(&scene.at(0), old, log(0, 100)).await, Err(ClaimError::EpochOver));
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    assert_eq!(coordinator.adopt(&scene.at(0), old, log(0, 100)).await, Err(ClaimError::EpochOver));
    assert_eq!(coordinator.commit(&[scene.commit(0, epoch, progress(21, []))]).await, [Ok(())]);
}

pub async fn a_replay_of_a_topic_created_anew_since_is_found_out(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    coordinator.replay(&scene.replay("r", [(0, 30)])).await.unwrap();
    let anew = Log { topic_id: Some(topic_id(2)), ..log(0, 90) };
    let claim = coordinator.claim(&scene.at(0), anew).await.unwrap();
    assert_eq!((claim.progress, claim.began), (progress(0, []), Began::TopicRecreated { abandoned: Offset(30) }));
}

pub async fn attempts_go_with_the_partition_until_a_replay(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    let tries = Tries::of([(Offset(20), 2), (Offset(24), 1)]);
    let tried = Progress { tries: tries.clone(), ..progress(20, [22..24]) };
    coordinator.release(&scene.commit(0, epoch, tried.clone())).await.unwrap();
    let claim = scene.claimed(&*coordinator, 0).await;
    assert_eq!(claim.progress, tried);
    drop(coordinator);
    let coordinator = member_of(harness).await;
    assert_eq!(scene.claimed(&*coordinator, 0).await.progress.tries, tries, "a claim keeps them");
    coordinator.replay(&scene.replay("r", [(0, 20)])).await.unwrap();
    assert!(scene.stands(&*coordinator, 0).await.unwrap().tries.is_empty());
}

//! Where a group begins.

use super::super::*;
use crate::coordinator::{Began, ClaimError};

pub async fn birth_is_written_once(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let first = Birth { topic_id: Some(topic_id(1)), start: vec![Offset(3), Offset(4)] };
    let coordinator = harness.open().await;
    assert_eq!(coordinator.birth(&scene.group, &scene.topic, first.clone(), &[log(0, 9); 2]).await, Ok(first.clone()));
    drop(coordinator);
    let again = Birth { topic_id: Some(topic_id(2)), start: vec![] };
    assert_eq!(harness.open().await.birth(&scene.group, &scene.topic, again, &[]).await, Ok(first));
}

pub async fn a_group_with_a_cursor_is_not_new(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    harness.set_cursor(&scene.at(1), "50").await;
    let coordinator = member_of(harness).await;
    let at_the_end = Birth { topic_id: Some(topic_id(1)), start: vec![Offset(100); 3] };
    let birth = coordinator.birth(&scene.group, &scene.topic, at_the_end.clone(), &[log(5, 100), log(6, 100), log(7, 100)]).await.unwrap();
    assert_eq!((birth.start[0], birth.start[2]), (Offset(5), Offset(7)));
    assert_eq!(coordinator.claim(&scene.at(2), log(7, 100)).await.unwrap().progress, progress(7, []));
    let other = Scene::new("g", "t2");
    assert_eq!(coordinator.birth(&other.group, &other.topic, at_the_end.clone(), &[log(5, 100); 3]).await, Ok(at_the_end));
}

pub async fn nothing_is_claimed_before_birth(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    assert_eq!(coordinator.claim(&scene.at(0), log(0, 100)).await, Err(ClaimError::NotBorn));
    scene.born(&*coordinator).await;
    assert_eq!(scene.claimed(&*coordinator, 0).await.began, Began::AtBirth);
}

pub async fn a_new_group_begins_at_its_birth(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let claim = scene.claimed(&*coordinator, 1).await;
    assert_eq!((claim.progress, claim.began), (progress(10, []), Began::AtBirth));
    assert_eq!(scene.stands(&*coordinator, 1).await, Some(progress(10, [])), "a claim writes the pair down");
    assert_eq!(scene.stands(&*coordinator, 2).await, None);
}

/// What came in between is not passed over by those that were not claimed before the crash.
pub async fn a_crash_half_way_through_the_first_claims_loses_no_start(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    scene.claimed(&*coordinator, 0).await;
    drop(coordinator);
    let coordinator = member_of(harness).await;
    let at_the_end = Birth { topic_id: Some(topic_id(1)), start: vec![Offset(100); 3] };
    coordinator.birth(&scene.group, &scene.topic, at_the_end, &[log(0, 100); 3]).await.unwrap();
    for partition in 0..3 {
        assert_eq!(scene.claimed(&*coordinator, partition).await.progress, progress(10, []), "partition {partition}");
    }
}

pub async fn a_partition_beyond_the_birth_list_starts_at_its_first_offset(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let claim = coordinator.claim(&scene.at(3), log(2, 40)).await.unwrap();
    assert_eq!((claim.progress, claim.began), (progress(2, []), Began::AtBirth));
}

pub async fn a_group_born_before_its_topic_misses_no_message(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    let nowhere = Birth { topic_id: None, start: vec![] };
    coordinator.birth(&scene.group, &scene.topic, nowhere, &[]).await.unwrap();
    let claim = coordinator.claim(&scene.at(0), log(0, 1)).await.unwrap();
    assert_eq!((claim.progress, claim.began), (progress(0, []), Began::AtBirth));
}

pub async fn a_cursor_of_an_old_tool_is_taken_up(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    harness.set_cursor(&scene.at(0), "42").await;
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let claim = scene.claimed(&*coordinator, 0).await;
    assert_eq!((claim.progress, claim.began), (progress(42, []), Began::AtCursor));
}

pub async fn an_unreadable_cursor_stops_the_partition(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    harness.set_cursor(&scene.at(0), "forty-two").await;
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let refused = Err(ClaimError::UnreadableCursor("forty-two".into()));
    assert_eq!(coordinator.claim(&scene.at(0), log(0, 100)).await, refused);
    assert_eq!(coordinator.claim(&scene.at(0), log(0, 100)).await, refused, "and is left as it is");
    assert_eq!(scene.claimed(&*coordinator, 1).await.progress, progress(0, []), "others go on, and the group is not new");
}

pub async fn a_topic_created_anew_is_found_out(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.release(&scene.commit(0, epoch, progress(20, [22..30]))).await.unwrap();
    let anew = Log { topic_id: Some(topic_id(2)), ..log(0, 90) };
    let claim = coordinator.claim(&scene.at(0), anew).await.unwrap();
    assert_eq!((claim.progress, claim.began), (progress(0, []), Began::TopicRecreated { abandoned: Offset(20) }));
    coordinator.release(&scene.commit(0, claim.epoch, progress(1, []))).await.unwrap();
    assert_eq!(coordinator.claim(&scene.at(0), anew).await.unwrap().began, Began::AtCursor, "once");
}

pub async fn what_retention_took_is_counted(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.release(&scene.commit(0, epoch, progress(20, [22..30, 60..61]))).await.unwrap();
    let claim = coordinator.claim(&scene.at(0), log(50, 100)).await.unwrap();
    assert_eq!((claim.progress, claim.began), (progress(50, [60..61]), Began::BelowFirst { skipped: 22 }));
}

pub async fn a_cursor_past_the_end_goes_to_the_end(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = member_of(harness).await;
    scene.born(&*coordinator).await;
    let epoch = scene.claimed(&*coordinator, 0).await.epoch;
    coordinator.release(&scene.commit(0, epoch, progress(80, []))).await.unwrap();
    let refused = coordinator.claim(&scene.at(0), log(0, 70)).await;
    assert_eq!(refused, Err(ClaimError::PastEnd(Offset(80))), "the end may have been read before the cursor was written");
    let read_again = Log { past_end: Some(Offset(80)), ..log(0, 70) };
    let claim = coordinator.claim(&scene.at(0), read_again).await.unwrap();
    assert_eq!((claim.progress, claim.began), (progress(70, []), Began::LogTruncated { from: Offset(80) }));
}

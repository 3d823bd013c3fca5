//! The embedded backend: the suite of the seam, a plain model, and what is its own.

use std::sync::Arc;

use tempfile::TempDir;

use super::super::conformance::{Harness, Scene, log, member, topic_id};
use super::super::{DoneSet, Progress};
use super::*;
use crate::store::Durability;

mod model;

struct Folder(TempDir);

impl Folder {
    fn store(&self) -> Store {
        Store::open(self.0.path()).unwrap()
    }

    fn coordinator(&self) -> EmbeddedCoordinator {
        EmbeddedCoordinator::open(&self.store()).unwrap()
    }

    fn put_pair(&self, at: &GroupPartition, text: &str) {
        let store = self.store();
        let mut batch = store.batch();
        batch.put(&store.keyspace(KEYSPACE, Profile::Small).unwrap(), &keys::pair(at), text.as_bytes().to_vec());
        batch.commit(Durability::Synced).unwrap();
    }
}

#[async_trait]
impl Harness for Folder {
    async fn open(&self) -> Arc<dyn Coordinator> {
        Arc::new(self.coordinator())
    }

    async fn set_cursor(&self, at: &GroupPartition, text: &str) {
        self.put_pair(at, text);
    }
}

async fn fresh() -> Folder {
    folder()
}

fn folder() -> Folder {
    Folder(tempfile::tempdir().unwrap())
}

mod conforms {
    use super::fresh;

    crate::coordinator_conformance!(fresh);
}

fn groups(names: &[&str]) -> Vec<GroupName> {
    names.iter().map(|name| GroupName::new(name).unwrap()).collect()
}

#[tokio::test]
async fn retention_is_told_the_lowest_offset_that_a_group_may_need() {
    let folder = folder();
    let (slow, fast) = (Scene::new("slow", "t"), Scene::new("fast", "t"));
    let coordinator = folder.coordinator();
    coordinator.join(member("here")).await.unwrap();
    let topic = slow.at(0).topic;
    let lowest = |names: &[&str], partition| {
        coordinator.lowest_cursor(&groups(names), &topic, Partition(partition), topic_id(1)).unwrap().map(|offset| offset.0)
    };
    assert_eq!(lowest(&[], 0), None);
    assert_eq!(lowest(&["slow"], 0), Some(0), "a group that has not started may need all");
    let birth = Birth { topic_id: Some(topic_id(1)), start: vec![Offset(10)] };
    for scene in [&slow, &fast] {
        coordinator.birth(&scene.at(0).group, &topic, birth.clone(), &[log(0, 100)]).await.unwrap();
    }
    assert_eq!(lowest(&["slow", "fast"], 0), Some(10));
    assert_eq!(lowest(&["slow", "fast"], 1), Some(0), "beyond the birth list it starts at the first offset");
    let epoch = coordinator.claim(&fast.at(0), log(0, 100)).await.unwrap().epoch;
    let far = Progress { cursor: Offset(70), ..Progress::default() };
    coordinator.commit(&[Commit { at: fast.at(0), epoch, progress: far }]).await.remove(0).unwrap();
    assert_eq!((lowest(&["slow", "fast"], 0), lowest(&["fast"], 0)), (Some(10), Some(70)));
    let anew = coordinator.lowest_cursor(&groups(&["fast"]), &topic, Partition(0), topic_id(2));
    assert_eq!(anew.unwrap(), Some(Offset(0)), "a cursor of the topic before says nothing about this one");
}

#[tokio::test]
async fn retention_spares_what_a_stopped_partition_may_need() {
    let folder = folder();
    let at = Scene::new("g", "t").at(0);
    folder.put_pair(&at, "garbage");
    let lowest = folder.coordinator().lowest_cursor(&groups(&["g"]), &at.topic, at.partition, topic_id(1));
    assert_eq!(lowest.unwrap(), Some(Offset(0)));
}

#[tokio::test]
async fn an_unreadable_birth_is_never_taken_for_no_birth() {
    let folder = folder();
    let at = Scene::new("g", "t").at(0);
    let store = folder.store();
    let keyspace = store.keyspace(KEYSPACE, Profile::Small).unwrap();
    let mut batch = store.batch();
    batch.put(&keyspace, &keys::birth(&at.group, &at.topic), b"{".as_slice());
    batch.commit(Durability::Synced).unwrap();
    let coordinator = EmbeddedCoordinator::open(&store).unwrap();
    coordinator.join(member("here")).await.unwrap();
    let claim = coordinator.claim(&at, log(0, 100)).await;
    let Err(ClaimError::Coordinator(CoordinatorError::Unavailable(reason))) = claim else { panic!("{claim:?}") };
    assert!(reason.contains("where group g starts in topic t"), "{reason}");
    let birth = Birth { topic_id: None, start: vec![] };
    assert!(coordinator.birth(&at.group, &at.topic, birth, &[]).await.is_err());
}

#[tokio::test]
async fn a_thousand_claims_at_once_are_answered_each_with_its_own_epoch() {
    let folder = folder();
    let scene = Scene::new("g", "t");
    let coordinator = folder.coordinator();
    coordinator.join(member("here")).await.unwrap();
    let birth = Birth { topic_id: None, start: vec![] };
    coordinator.birth(&scene.at(0).group, &scene.at(0).topic, birth, &[]).await.unwrap();
    let all: Vec<_> = (0..1000).map(|partition| scene.at(partition)).collect();
    let claims = futures_util::future::join_all(all.iter().map(|at| coordinator.claim(at, log(0, 100)))).await;
    let mut epochs: Vec<_> = claims.into_iter().map(|claim| claim.unwrap().epoch).collect();
    epochs.sort();
    epochs.dedup();
    assert_eq!(epochs.len(), all.len());
}

#[tokio::test]
async fn what_was_asked_is_done_though_nobody_waits_for_the_answer() {
    let folder = folder();
    let group = GroupName::new("g").unwrap();
    let coordinator = folder.coordinator();
    {
        let mut paused = coordinator.set_paused(&group, true);
        assert!(futures_util::poll!(&mut paused).is_pending());
    }
    drop(coordinator);
    assert!(folder.coordinator().control(&group).await.unwrap().paused);
}

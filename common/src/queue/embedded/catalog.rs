//! The topics there are.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::HashMap;
use tokio::sync::watch;

use super::chunk::Place;
use super::log::Log;
use super::meta::StoredTopic;
use super::partitioner::Wish;
use super::segment::Run;
use crate::ids::{Partition, Topic};
use crate::queue::{QueueError, TopicInfo};

/// One topic and its partitions.
pub(super) struct TopicLogs {
    pub(super) info: TopicInfo,
    pub(super) number: u32,
    pub(super) logs: Box<[Arc<Log>]>,
    turn: AtomicU32,
}

impl TopicLogs {
    /// `restore` tells what the store has of a partition: where retention has come to, and runs.
    pub(super) fn new(topic: Topic, stored: &StoredTopic, mut restore: impl FnMut(Place) -> (u64, VecDeque<Run>)) -> Self {
        let logs = (0..stored.partitions).map(|partition| {
            let place = Place { topic: stored.number, partition };
            let (first, runs) = restore(place);
            Arc::new(Log::new(topic.clone(), place, first, runs))
        });
        let logs = logs.collect();
        let info = TopicInfo { topic, id: Some(stored.id), partitions: stored.partitions };
        Self { info, number: stored.number, logs, turn: AtomicU32::new(rand::random()) }
    }

    pub(super) fn log(&self, partition: Partition) -> Option<&Arc<Log>> {
        self.logs.get(partition.0 as usize)
    }

    pub(super) fn choose(&self, wish: Wish) -> Option<Partition> {
        wish.choose(self.info.partitions, &self.turn)
    }
}

/// Written by the committing thread alone.
pub(super) struct Catalog {
    topics: RwLock<HashMap<Topic, Arc<TopicLogs>>>,
    changes: watch::Sender<u64>,
}

impl Catalog {
    pub(super) fn new(topics: impl IntoIterator<Item = TopicLogs>) -> Self {
        let topics = topics.into_iter().map(|logs| (logs.info.topic.clone(), Arc::new(logs)));
        Self { topics: RwLock::new(topics.collect()), changes: watch::Sender::new(0) }
    }

    pub(super) fn get(&self, topic: &Topic) -> Option<Arc<TopicLogs>> {
        self.read().get(topic).cloned()
    }

    pub(super) fn log(&self, topic: &Topic, partition: Partition) -> Result<Arc<Log>, QueueError> {
        let topics = self.read();
        let logs = topics.get(topic).ok_or_else(|| QueueError::UnknownTopic(topic.clone()))?;
        logs.log(partition).cloned().ok_or_else(|| QueueError::UnknownPartition(topic.clone(), partition))
    }

    pub(super) fn len(&self) -> usize {
        self.read().len()
    }

    /// By name.
    pub(super) fn infos(&self) -> Vec<TopicInfo> {
        let mut infos: Vec<_> = self.read().values().map(|logs| logs.info.clone()).collect();
        infos.sort_by(|a, b| a.topic.cmp(&b.topic));
        infos
    }

    /// Every partition, in the order of keys.
    pub(super) fn logs(&self) -> Vec<Arc<Log>> {
        let mut logs: Vec<_> = self.read().values().flat_map(|topic| topic.logs.iter().cloned()).collect();
        logs.sort_by_key(|log| log.place);
        logs
    }

    pub(super) fn insert(&self, topic: TopicLogs) -> Arc<TopicLogs> {
        let topic = Arc::new(topic);
        self.topics.write().unwrap_or_else(PoisonError::into_inner).insert(topic.info.topic.clone(), Arc::clone(&topic));
        self.changes.send_modify(|n| *n += 1);
        topic
    }

    pub(super) fn remove(&self, topic: &Topic) {
        let removed = self.topics.write().unwrap_or_else(PoisonError::into_inner).remove(topic);
        for log in removed.iter().flat_map(|topic| topic.logs.iter()) {
            log.delete();
        }
        self.changes.send_modify(|n| *n += 1);
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<Topic, Arc<TopicLogs>>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner)
    }
}

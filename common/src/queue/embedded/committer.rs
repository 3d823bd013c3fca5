//! The one thread that writes. It takes everything that waits, writes it as one batch with one
//! sync, and only then makes it readable and answers. It never waits for more to come.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::Duration;

use super::catalog::TopicLogs;
use super::head::Head;
use super::housekeeper::Job;
use super::intake::{Pending, Target, Work, shutting_down};
use super::meta::StoredTopic;
use super::options::{MAX_PARTITIONS, WAITING_FLUSHES};
use super::recent::Recent;
use super::round::Round;
use super::shared::Shared;
use super::space::{self, Room};
use crate::ids::{Partition, Topic, TopicId};
use crate::queue::{CreateTopicError, NotWritten, ProduceError, QueueError, TopicInfo};
use crate::store::{Durability, StoreError};

pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) work: Receiver<Work>,
    pub(super) jobs: Sender<Job>,
    pub(super) head: Head,
    pub(super) recent: Recent,
    pub(super) next_topic: u32,
    /// Between two commits, empty.
    pub(super) round: Round,
}

impl Committer {
    /// Ends when it is told to close, after everything that was sent before.
    pub(super) fn run(mut self) {
        while let Ok(mut work) = self.work.recv() {
            loop {
                let next = match work {
                    Work::Append(pending) => self.commit_what_waits(pending),
                    Work::Create { topic, partitions, answer } => {
                        // Who asked may be gone; the topic is there all the same.
                        drop(answer.send(self.create(&topic, partitions)));
                        None
                    }
                    Work::Delete { topic, answer } => {
                        drop(answer.send(self.delete(&topic)));
                        None
                    }
                    Work::RollIfBefore(time, answer) => {
                        self.head.roll_if_before(time, &self.shared, &self.jobs);
                        let _ = answer.map(|answer| answer.send(()));
                        None
                    }
                    Work::Close => return self.close(),
                };
                match next {
                    Some(next) => work = next,
                    None => break,
                }
            }
        }
    }

    /// Commits this and all appends behind it; returns the first work of another kind.
    fn commit_what_waits(&mut self, first: Pending) -> Option<Work> {
        let mut round = std::mem::take(&mut self.round);
        self.admit(&mut round, first);
        let mut next = None;
        while !round.is_full() {
            match self.work.try_recv() {
                Ok(Work::Append(pending)) => self.admit(&mut round, pending),
                Ok(other) => {
                    next = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        if !round.is_empty() {
            self.commit(&mut round);
        }
        self.round = round;
        next
    }

    fn admit(&mut self, round: &mut Round, pending: Pending) {
        match self.resolve(&pending.target) {
            Ok((topic, partition)) => round.add(topic, partition, pending),
            Err(error) => pending.answer(Err(error)),
        }
    }

    fn resolve(&mut self, target: &Target) -> Result<(Arc<TopicLogs>, Partition), ProduceError> {
        match target {
            Target::Known(topic, partition) => match topic.logs.first() {
                Some(log) if log.deleted() => Err(ProduceError::UnknownTopic(topic.info.topic.clone())),
                _ => Ok((Arc::clone(topic), *partition)),
            },
            Target::New(name, wish) => {
                let topic = self.found_or_created(name)?;
                let unknown =
                    |partition| ProduceError::UnknownPartition { topic: name.clone(), partition, partitions: topic.info.partitions };
                topic.choose(*wish).map(|partition| (Arc::clone(&topic), partition)).ok_or_else(|| unknown(wish.partition()))
            }
        }
    }

    fn found_or_created(&mut self, name: &Topic) -> Result<Arc<TopicLogs>, ProduceError> {
        if let Some(topic) = self.shared.catalog.get(name) {
            return Ok(topic);
        }
        let partitions = self.shared.options.auto_create.ok_or_else(|| ProduceError::UnknownTopic(name.clone()))?;
        self.create(name, partitions).map_err(|error| {
            let why = match &error {
                CreateTopicError::TooMany(_) => NotWritten::TooManyTopics,
                CreateTopicError::Queue(QueueError::Storage(_)) => NotWritten::StorageFailed,
                _ => NotWritten::Unavailable,
            };
            ProduceError::NotWritten(why, error.to_string())
        })?;
        self.shared.catalog.get(name).ok_or_else(|| ProduceError::UnknownTopic(name.clone()))
    }

    fn commit(&mut self, round: &mut Round) {
        let shared = Arc::clone(&self.shared);
        if let Some(failure) = shared.store.failure() {
            shared.metrics.writable.set(0);
            return round.refuse(&ProduceError::NotWritten(NotWritten::StorageFailed, failure.to_string()));
        }
        if let Err(error) = self.make_room(round.bytes() as u64) {
            return round.refuse(&error);
        }
        let began = shared.health.begin_commit();
        let mut batch = shared.store.batch();
        let segment = Arc::clone(self.head.segment());
        let added = round.write(&mut batch, &segment);
        let committed = batch.commit(Durability::Synced);
        shared.health.end_commit();
        match committed {
            Ok(()) => {
                shared.metrics.sync_seconds.observe(began.elapsed().as_secs_f64());
                shared.metrics.synced_records.inc_by(round.records() as u64);
                shared.metrics.bytes.inc_by(i64::try_from(added).unwrap_or(i64::MAX));
                round.publish(&segment, |log, records, bytes| self.recent.add(log, records, bytes));
                self.head.grew(added, &shared, &self.jobs);
            }
            Err(error) => {
                shared.metrics.writable.set(0);
                round.refuse(&ProduceError::MaybeWritten(error.to_string()));
            }
        }
    }

    /// Room in the segment, in memory and on the disk.
    fn make_room(&mut self, bytes: u64) -> Result<(), ProduceError> {
        while self.shared.store.waiting_flushes() > WAITING_FLUSHES {
            if let Some(failure) = self.shared.store.failure() {
                return Err(ProduceError::NotWritten(NotWritten::StorageFailed, failure.to_string()));
            }
            // Only while the disk is slower than the producers; `fjall` tells nobody when a flush ends.
            thread::sleep(Duration::from_millis(1));
        }
        match space::room(&self.shared.store, self.shared.options.disk_reserve_bytes, bytes) {
            Room::Enough => {
                if self.shared.health.set_disk_full(false) {
                    self.shared.metrics.writable.set(1);
                    tracing::info!(folder = %self.shared.store.folder().display(), "the disk has room again; messages are taken");
                }
            }
            Room::Full { free_bytes, needed_bytes } => {
                let folder = self.shared.store.folder().display();
                if self.shared.health.set_disk_full(true) {
                    self.shared.metrics.writable.set(0);
                    tracing::error!(%folder, free_bytes, needed_bytes, "the disk is full; messages are refused until there is room");
                    drop(self.jobs.send(Job::Sweep(None)));
                }
                let reason = format!("the disk under {folder} has {free_bytes} bytes free and {needed_bytes} are needed");
                return Err(ProduceError::NotWritten(NotWritten::DiskFull, reason));
            }
        }
        let failed = |error: StoreError| ProduceError::NotWritten(NotWritten::StorageFailed, error.to_string());
        self.head.make_room(&self.shared, &self.jobs).map_err(failed)
    }

    fn create(&mut self, topic: &Topic, partitions: u32) -> Result<TopicInfo, CreateTopicError> {
        let catalog = &self.shared.catalog;
        if let Some(there) = catalog.get(topic) {
            return Err(CreateTopicError::Exists(there.info.clone()));
        }
        if !(1..=MAX_PARTITIONS).contains(&partitions) {
            return Err(CreateTopicError::Partitions { asked: partitions, max: MAX_PARTITIONS });
        }
        let count = u32::try_from(catalog.len()).unwrap_or(u32::MAX);
        if count >= self.shared.options.max_topics {
            return Err(CreateTopicError::TooMany(count));
        }
        let stored = StoredTopic { number: self.next_topic, id: TopicId(uuid::Uuid::new_v4()), partitions };
        let mut batch = self.shared.store.batch();
        self.shared.meta.put_topic(&mut batch, topic, &stored);
        batch.commit(Durability::Synced).map_err(|e| storage(&e))?;
        self.next_topic += 1;
        let logs = catalog.insert(TopicLogs::new(topic.clone(), &stored, |_| (0, VecDeque::new())));
        tracing::info!(%topic, partitions, id = %stored.id, "topic created");
        Ok(logs.info.clone())
    }

    fn delete(&mut self, topic: &Topic) -> Result<bool, QueueError> {
        let Some(logs) = self.shared.catalog.get(topic) else { return Ok(false) };
        let mut batch = self.shared.store.batch();
        self.shared.meta.delete_topic(&mut batch, topic, logs.logs.iter().map(|log| log.place));
        batch.commit(Durability::Synced).map_err(|e| storage(&e))?;
        self.shared.catalog.remove(topic);
        tracing::info!(%topic, "topic deleted");
        // Its space is worth freeing soon, also when most of it lies in the segment being filled.
        self.head.roll(&self.shared, &self.jobs);
        drop(self.jobs.send(Job::Clean));
        Ok(true)
    }

    fn close(self) {
        while let Ok(work) = self.work.try_recv() {
            if let Work::Append(pending) = work {
                pending.answer(Err(shutting_down()));
            }
        }
        if let Err(error) = self.shared.store.sync() {
            tracing::error!(%error, "the embedded log could not be synced while closing");
        }
    }
}

fn storage(error: &StoreError) -> QueueError {
    QueueError::Storage(error.to_string())
}

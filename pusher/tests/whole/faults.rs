//! The real queue and coordinator, made to fail on demand.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use common::coordinator::embedded::EmbeddedCoordinator;
use common::coordinator::{
    Birth, Claim, ClaimError, Commit, CommitError, Control, Coordinator, CoordinatorError, Lease, LeaseHolder, Log, Member, Replay,
    Replayed, Standing, Vacant,
};
use common::ids::{Epoch, GroupName, GroupPartition, Offset, Partition, Topic};
use common::queue::embedded::EmbeddedQueue;
use common::queue::{Ack, CreateTopicError, Produce, Queue, QueueError, ReadError, Reader, TopicInfo, Watermarks};
use common::record::{Message, TimestampMs};
use tokio::sync::{Notify, watch};

pub(crate) struct FaultyCoordinator {
    inner: Arc<EmbeddedCoordinator>,
    lease: Lease,
    pub(crate) holder: LeaseHolder,
    pub(crate) commits_fail: AtomicBool,
    pub(crate) held_by_another: AtomicBool,
    pub(crate) births_fail: AtomicBool,
    pub(crate) looks_fail: AtomicBool,
    /// Members besides this process.
    pub(crate) others: Mutex<Vec<Member>>,
    pub(crate) patience: Mutex<Option<Duration>>,
    /// The partitions of every commit, each of which takes so long.
    pub(crate) committed: Mutex<Vec<Vec<GroupPartition>>>,
    pub(crate) commit_takes: Duration,
}

impl FaultyCoordinator {
    pub(crate) fn around(inner: Arc<EmbeddedCoordinator>) -> Arc<Self> {
        Self::with_commits_of(Duration::ZERO, inner)
    }

    pub(crate) fn with_commits_of(commit_takes: Duration, inner: Arc<EmbeddedCoordinator>) -> Arc<Self> {
        let (holder, lease) = Lease::new(true);
        let no = AtomicBool::default;
        Arc::new(Self {
            inner,
            lease,
            holder,
            commits_fail: no(),
            held_by_another: no(),
            births_fail: no(),
            looks_fail: no(),
            others: Mutex::default(),
            patience: Mutex::default(),
            committed: Mutex::default(),
            commit_takes,
        })
    }
}

fn unavailable() -> CoordinatorError {
    CoordinatorError::Unavailable("made to fail".into())
}

#[async_trait]
impl Coordinator for FaultyCoordinator {
    async fn join(&self, member: Member) -> Result<(), CoordinatorError> {
        self.inner.join(member).await
    }
    async fn withdraw(&self) -> Result<(), CoordinatorError> {
        self.inner.withdraw().await
    }

    async fn leave(&self) -> Result<(), CoordinatorError> {
        self.inner.leave().await
    }
    async fn members(&self) -> Result<Vec<Member>, CoordinatorError> {
        let mut members = self.inner.members().await?;
        members.extend(self.others.lock().unwrap().iter().cloned());
        Ok(members)
    }
    async fn birth(&self, group: &GroupName, topic: &Topic, birth: Birth, log: &[Log]) -> Result<Birth, CoordinatorError> {
        match self.births_fail.load(Ordering::Relaxed) {
            true => Err(unavailable()),
            false => self.inner.birth(group, topic, birth, log).await,
        }
    }
    async fn claim(&self, at: &GroupPartition, log: Log) -> Result<Claim, ClaimError> {
        match self.held_by_another.load(Ordering::Relaxed) {
            true => Err(ClaimError::Held("another".into())),
            false => self.inner.claim(at, log).await,
        }
    }
    async fn adopt(&self, at: &GroupPartition, epoch: Epoch, log: Log) -> Result<Claim, ClaimError> {
        self.inner.adopt(at, epoch, log).await
    }
    async fn commit(&self, commits: &[Commit]) -> Vec<Result<(), CommitError>> {
        tokio::time::sleep(self.commit_takes).await;
        self.committed.lock().unwrap().push(commits.iter().map(|commit| commit.at.clone()).collect());
        match self.commits_fail.load(Ordering::Relaxed) {
            true => commits.iter().map(|_| Err(unavailable().into())).collect(),
            false => self.inner.commit(commits).await,
        }
    }
    async fn release(&self, last: &Commit) -> Result<(), CommitError> {
        match self.commits_fail.load(Ordering::Relaxed) {
            true => Err(unavailable().into()),
            false => self.inner.release(last).await,
        }
    }
    async fn control(&self, group: &GroupName) -> Result<Control, CoordinatorError> {
        self.inner.control(group).await
    }
    async fn set_paused(&self, group: &GroupName, paused: bool) -> Result<(), CoordinatorError> {
        self.inner.set_paused(group, paused).await
    }
    async fn replay(&self, replay: &Replay) -> Result<Replayed, CoordinatorError> {
        self.inner.replay(replay).await
    }
    async fn moved(&self, owned: &[(GroupPartition, Epoch)]) -> Result<Vec<GroupPartition>, CoordinatorError> {
        match self.looks_fail.load(Ordering::Relaxed) {
            true => Err(unavailable()),
            false => self.inner.moved(owned).await,
        }
    }
    async fn vacant(&self, group: &GroupName, topic: &Topic, partitions: u32) -> Result<Vec<Vacant>, CoordinatorError> {
        self.inner.vacant(group, topic, partitions).await
    }
    fn patience(&self) -> Option<Duration> {
        *self.patience.lock().unwrap()
    }
    async fn standing(&self, at: &[GroupPartition]) -> Result<Vec<Standing>, CoordinatorError> {
        self.inner.standing(at).await
    }
    fn hints(&self) -> watch::Receiver<u64> {
        self.inner.hints()
    }
    fn lease(&self) -> Lease {
        self.lease.clone()
    }
    fn missing(&self) -> Vec<String> {
        self.inner.missing()
    }
}

pub(crate) struct FaultyQueue {
    inner: Arc<EmbeddedQueue>,
    pub(crate) reads_fail: Arc<AtomicBool>,
    /// Questions about topics are not answered until `released` says so.
    pub(crate) metadata_hangs: AtomicBool,
    /// No topic is there when it is asked for.
    pub(crate) topics_hide: AtomicBool,
    pub(crate) released: Notify,
    /// The partition for which no offset is found by time.
    pub(crate) times_fail_in: AtomicU32,
}

impl FaultyQueue {
    pub(crate) fn around(inner: Arc<EmbeddedQueue>) -> Arc<Self> {
        let metadata_hangs = AtomicBool::default();
        Arc::new(Self {
            inner,
            reads_fail: Arc::default(),
            metadata_hangs,
            topics_hide: AtomicBool::default(),
            released: Notify::new(),
            times_fail_in: AtomicU32::new(u32::MAX),
        })
    }

    async fn answering(&self) {
        let released = self.released.notified();
        if self.metadata_hangs.load(Ordering::Relaxed) {
            released.await;
        }
    }
}

struct FaultyReader {
    inner: Box<dyn Reader>,
    fail: Arc<AtomicBool>,
}

#[async_trait]
impl Reader for FaultyReader {
    async fn next(&mut self, max_bytes: usize) -> Result<common::queue::Batch, ReadError> {
        let batch = self.inner.next(max_bytes).await?;
        match self.fail.load(Ordering::Relaxed) {
            true => Err(QueueError::Unavailable("made to fail".into()).into()),
            false => Ok(batch),
        }
    }
}

#[async_trait]
impl Queue for FaultyQueue {
    fn produce(&self, message: Message, ack: Ack) -> Produce {
        self.inner.produce(message, ack)
    }
    async fn topics(&self) -> Result<Vec<TopicInfo>, QueueError> {
        self.answering().await;
        self.inner.topics().await
    }
    async fn topic(&self, topic: &Topic) -> Result<Option<TopicInfo>, QueueError> {
        self.answering().await;
        match self.topics_hide.load(Ordering::Relaxed) {
            true => Ok(None),
            false => self.inner.topic(topic).await,
        }
    }
    async fn create_topic(&self, topic: &Topic, partitions: u32) -> Result<TopicInfo, CreateTopicError> {
        self.inner.create_topic(topic, partitions).await
    }
    async fn delete_topic(&self, topic: &Topic) -> Result<bool, QueueError> {
        self.inner.delete_topic(topic).await
    }
    async fn watermarks(&self, topic: &Topic, partition: Partition) -> Result<Watermarks, QueueError> {
        self.inner.watermarks(topic, partition).await
    }
    async fn offset_for_time(&self, topic: &Topic, partition: Partition, time: TimestampMs) -> Result<Offset, QueueError> {
        match self.times_fail_in.load(Ordering::Relaxed) == partition.0 {
            true => Err(QueueError::Unavailable(format!("partition {partition} has no leader"))),
            false => self.inner.offset_for_time(topic, partition, time).await,
        }
    }
    async fn open(&self, topic: &Topic, partition: Partition, from: Offset, epoch: Epoch) -> Result<Box<dyn Reader>, ReadError> {
        let inner = self.inner.open(topic, partition, from, epoch).await?;
        Ok(Box::new(FaultyReader { inner, fail: self.reads_fail.clone() }))
    }
    fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes()
    }
    fn missing(&self) -> Vec<String> {
        self.inner.missing()
    }
}

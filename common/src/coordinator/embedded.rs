//! The coordinator for one process without `ZooKeeper`: the same verbs over the embedded store. A
//! session is the process's lock on its data folder, so owners and members live in memory only;
//! pairs, births and controls lie in the store.
//!
//! One thread owns all of it (`thread`). What waits while it syncs is done next, in one batch of
//! the store: a thousand claims at start cost a few syncs and not a thousand.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use self::session::Session;
use self::thread::Thread;
use self::transaction::Transaction;
use super::{
    Birth, Claim, ClaimError, Commit, CommitError, Control, Coordinator, CoordinatorError, Lease, LeaseHolder, Log, Member, Replay,
    Replayed, Standing, Vacant,
};
use crate::ids::{Epoch, GroupName, GroupPartition, Offset, Partition, Topic, TopicId};
use crate::store::{Keyspace, Profile, Store, StoreError};

mod keys;
mod retention;
mod session;
mod thread;
mod transaction;

const KEYSPACE: &str = "coordinator";

/// Dropping it waits for what was asked before; the data folder is free then.
pub struct EmbeddedCoordinator {
    thread: Thread,
    store: Store,
    keyspace: Keyspace,
    hints: watch::Receiver<u64>,
    lease: Lease,
    /// Never used: the lease of a process that holds its lock does not end.
    _holds: LeaseHolder,
}

impl EmbeddedCoordinator {
    /// Blocks on the disk for some milliseconds.
    pub fn open(store: &Store) -> Result<Self, StoreError> {
        let keyspace = store.keyspace(KEYSPACE, Profile::Small)?;
        let transaction = Transaction::new(store.clone(), keyspace.clone());
        let session = Session::open(&transaction)?;
        let (hint, hints) = watch::channel(0);
        let thread = Thread::start(session, transaction, hint);
        let (holds, lease) = Lease::new(true);
        Ok(Self { thread, store: store.clone(), keyspace, hints, lease, _holds: holds })
    }

    /// The lowest offset that any of these groups may still need of a partition, for the queue's
    /// retention; `None` where there are no groups. A group that has not started, or whose cursor
    /// cannot be read or is of another topic of that name, may need all. Reads a few hundred bytes
    /// a group, on the calling thread.
    pub fn lowest_cursor(
        &self,
        groups: &[GroupName],
        topic: &Topic,
        partition: Partition,
        topic_id: TopicId,
    ) -> Result<Option<Offset>, StoreError> {
        let needed = |group: &GroupName| {
            let at = GroupPartition { group: group.clone(), topic: topic.clone(), partition };
            retention::needed(&self.keyspace, &at, topic_id)
        };
        groups.iter().map(needed).try_fold(None, |lowest: Option<Offset>, needed| {
            let needed = needed?;
            Ok(Some(lowest.map_or(needed, |lowest| lowest.min(needed))))
        })
    }
}

#[async_trait]
impl Coordinator for EmbeddedCoordinator {
    async fn join(&self, member: Member) -> Result<(), CoordinatorError> {
        let join = move |session: &mut Session, _: &mut Transaction| {
            session.join(member);
            Ok(())
        };
        self.thread.ask(join).await
    }

    async fn withdraw(&self) -> Result<(), CoordinatorError> {
        let withdraw = |session: &mut Session, _: &mut Transaction| {
            session.withdraw();
            Ok(())
        };
        self.thread.ask(withdraw).await
    }

    async fn leave(&self) -> Result<(), CoordinatorError> {
        let leave = |session: &mut Session, _: &mut Transaction| {
            session.leave();
            Ok(())
        };
        self.thread.ask(leave).await
    }

    async fn members(&self) -> Result<Vec<Member>, CoordinatorError> {
        self.thread.ask(|session, _| Ok(session.members())).await
    }

    async fn birth(&self, group: &GroupName, topic: &Topic, birth: Birth, log: &[Log]) -> Result<Birth, CoordinatorError> {
        let (group, topic, log) = (group.clone(), topic.clone(), log.to_vec());
        self.thread.ask(move |_, transaction| session::birth(transaction, &group, &topic, birth, &log)).await
    }

    async fn claim(&self, at: &GroupPartition, log: Log) -> Result<Claim, ClaimError> {
        let at = at.clone();
        self.thread.ask(move |session, transaction| session.claim(transaction, &at, &log)).await
    }

    async fn adopt(&self, at: &GroupPartition, epoch: Epoch, log: Log) -> Result<Claim, ClaimError> {
        let at = at.clone();
        self.thread.ask(move |session, transaction| session.adopt(transaction, &at, epoch, &log)).await
    }

    async fn commit(&self, commits: &[Commit]) -> Vec<Result<(), CommitError>> {
        let commits: Arc<[Commit]> = commits.into();
        let count = commits.len();
        let verb = move |session: &mut Session, transaction: &mut Transaction| {
            Ok(commits.iter().map(|commit| session.commit(transaction, commit)).collect())
        };
        self.thread.ask(verb).await.unwrap_or_else(|error: CoordinatorError| vec![Err(error.into()); count])
    }

    async fn release(&self, last: &Commit) -> Result<(), CommitError> {
        let last = last.clone();
        self.thread.ask(move |session, transaction| session.release(transaction, &last)).await
    }

    async fn control(&self, group: &GroupName) -> Result<Control, CoordinatorError> {
        let group = group.clone();
        self.thread.ask(move |_, transaction| session::control(transaction, &group)).await
    }

    async fn set_paused(&self, group: &GroupName, paused: bool) -> Result<(), CoordinatorError> {
        let group = group.clone();
        self.thread.ask(move |session, transaction| session.set_paused(transaction, &group, paused)).await
    }

    async fn replay(&self, replay: &Replay) -> Result<Replayed, CoordinatorError> {
        let replay = replay.clone();
        self.thread.ask(move |session, transaction| session.replay(transaction, replay)).await
    }

    async fn moved(&self, owned: &[(GroupPartition, Epoch)]) -> Result<Vec<GroupPartition>, CoordinatorError> {
        let owned = owned.to_vec();
        self.thread.ask(move |session, _| Ok(session.moved(owned))).await
    }

    async fn vacant(&self, group: &GroupName, topic: &Topic, partitions: u32) -> Result<Vec<Vacant>, CoordinatorError> {
        let at = |partition| GroupPartition { group: group.clone(), topic: topic.clone(), partition };
        let all: Vec<_> = (0..partitions).map(Partition).map(at).collect();
        self.thread.ask(move |session, _| Ok(session.vacant(all))).await
    }

    /// There is nobody else.
    fn patience(&self) -> Option<Duration> {
        None
    }

    async fn standing(&self, at: &[GroupPartition]) -> Result<Vec<Standing>, CoordinatorError> {
        let at = at.to_vec();
        self.thread.ask(move |session, transaction| at.iter().map(|at| session.standing(transaction, at)).collect()).await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.clone()
    }

    fn lease(&self) -> Lease {
        self.lease.clone()
    }

    fn missing(&self) -> Vec<String> {
        self.store.failed().map(|reason| format!("the store of cursors takes no writes until a restart: {reason}")).into_iter().collect()
    }
}

impl From<StoreError> for CoordinatorError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

#[cfg(test)]
mod tests;

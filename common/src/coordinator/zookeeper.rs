//! The coordinator over `ZooKeeper`: any number of processes share partitions, and lose nothing.
//!
//! One owner task has a session and everything that hangs on it (`session`, `state`); a process that
//! owns more than servers can end at once has several (`sessions`). A verb runs in
//! a task of its own, to its end: it reads (`core`, `wire`), decides by pure rules (`claim` beside
//! this module, `outcome`), writes one transaction, and tells the owner what became of it. What is
//! not answered is sent again, the same, on the same session, until it is known. The library that
//! speaks to the servers is behind `servers`.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::brokers::{BrokersError, registered_brokers};
pub use self::ensemble::{Ensemble, EnsembleError};
pub use self::metrics::Metrics;
use self::servers::{Door, Network};
use self::sessions::{Begun, Sessions};
use self::state::MAX_PATH_BYTES;
use self::store::Then;
use super::{
    Birth, Claim, ClaimError, Commit, CommitError, Control, Coordinator, CoordinatorError, Lease, Log, Member, Replay, Replayed, Standing,
    Vacant, vacancy,
};
use crate::ids::{Epoch, GroupName, GroupPartition, Topic};

mod brokers;
mod claim;
mod core;
mod ensemble;
mod fleet;
mod foreign;
mod groups;
mod member;
mod metrics;
#[cfg(any(test, feature = "model"))]
pub mod model;
mod outcome;
mod owned;
mod paths;
mod servers;
mod session;
mod sessions;
mod state;
mod store;
mod wire;

/// What makes a session: groups with the same of these share one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    pub ensemble: Ensemble,
    /// Asked for; the servers may grant another.
    pub session_timeout: Duration,
    /// `user:password`.
    pub digest: Option<String>,
    pub acl: AclMode,
}

/// Of every node that is created.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AclMode {
    /// Everybody may do everything, as with the original.
    Open,
    /// Who has our credentials may do everything, others read.
    Creator,
}

/// Dropping it closes the session in the background. What [`Coordinator::leave`] has deleted is gone before.
pub struct ZooKeeperCoordinator {
    sessions: Sessions,
    hints: watch::Receiver<u64>,
    /// Of all sessions together.
    lease: Lease,
    /// How long the answer to a verb is waited for; what was begun goes on.
    patience: Duration,
    _stop: DropGuard,
}

impl ZooKeeperCoordinator {
    /// Connects in the background; needs a tokio runtime.
    pub fn open(options: Options, metrics: &Metrics) -> Self {
        Self::through(Network(options.clone()), options, metrics, MAX_PATH_BYTES)
    }

    /// `max_path_bytes`: of the ephemeral nodes of one session.
    fn through<D: Door>(door: D, options: Options, metrics: &Metrics, max_path_bytes: usize) -> Self {
        let (stop, patience) = (CancellationToken::new(), options.session_timeout);
        let Begun { sessions, hints, lease } = sessions::begin(door, options, metrics, stop.clone(), max_path_bytes);
        sessions.first.background(foreign::watch(sessions.first.clone()));
        Self { sessions, hints, lease, patience, _stop: stop.drop_guard() }
    }

    /// Runs a verb to its end, whether or not it is waited for.
    async fn run<T: Send + 'static>(&self, verb: impl Future<Output = T> + Send + 'static) -> Result<T, CoordinatorError> {
        self.sessions.first.to_its_end(self.patience, verb, |_| std::future::ready(())).await
    }

    async fn run_claim(
        &self,
        at: &GroupPartition,
        verb: impl Future<Output = Result<Claim, ClaimError>> + Send + 'static,
    ) -> Result<Claim, ClaimError> {
        let (sessions, at) = (self.sessions.clone(), at.clone());
        let unwanted = async move |claimed: Result<Claim, ClaimError>| {
            if let Ok(claim) = claimed {
                sessions.disown(at, claim.epoch).await;
            }
        };
        self.sessions.first.to_its_end(self.patience, verb, unwanted).await?
    }
}

#[async_trait]
impl Coordinator for ZooKeeperCoordinator {
    /// Waits for an older session of this process to end, however long; for another process of the
    /// same name the session timeout and 5 s.
    async fn join(&self, member: Member) -> Result<(), CoordinatorError> {
        fleet::join(self.sessions.first.clone(), member).await
    }

    async fn withdraw(&self) -> Result<(), CoordinatorError> {
        self.run(self.sessions.clone().withdraw()).await?
    }

    async fn leave(&self) -> Result<(), CoordinatorError> {
        self.run(self.sessions.clone().leave()).await?
    }

    async fn members(&self) -> Result<Vec<Member>, CoordinatorError> {
        fleet::members(&self.sessions.first).await
    }

    async fn birth(&self, group: &GroupName, topic: &Topic, birth: Birth, log: &[Log]) -> Result<Birth, CoordinatorError> {
        self.run(groups::birth(self.sessions.first.clone(), group.clone(), topic.clone(), birth, log.to_vec())).await?
    }

    async fn claim(&self, at: &GroupPartition, log: Log) -> Result<Claim, ClaimError> {
        let _turn = self.sessions.turn_to_claim().await?;
        self.run_claim(at, claim::claim(self.sessions.clone(), at.clone(), log)).await
    }

    async fn adopt(&self, at: &GroupPartition, epoch: Epoch, log: Log) -> Result<Claim, ClaimError> {
        self.run_claim(at, self.sessions.clone().adopt(at.clone(), epoch, log)).await
    }

    async fn commit(&self, commits: &[Commit]) -> Vec<Result<(), CommitError>> {
        let stored = self.run(self.sessions.clone().store(commits.to_vec(), Then::Keep)).await;
        stored.unwrap_or_else(|error| vec![Err(error.into()); commits.len()])
    }

    async fn release(&self, last: &Commit) -> Result<(), CommitError> {
        let released = self.run(self.sessions.clone().store(vec![last.clone()], Then::Release)).await?;
        self.sessions.first.hint();
        released.into_iter().next().unwrap_or(Ok(()))
    }

    async fn control(&self, group: &GroupName) -> Result<Control, CoordinatorError> {
        groups::control(&self.sessions.first, group).await
    }

    async fn set_paused(&self, group: &GroupName, paused: bool) -> Result<(), CoordinatorError> {
        self.run(groups::set_paused(self.sessions.first.clone(), group.clone(), paused)).await?
    }

    async fn replay(&self, replay: &Replay) -> Result<Replayed, CoordinatorError> {
        self.run(groups::replay(self.sessions.first.clone(), replay.clone())).await?
    }

    async fn moved(&self, owned: &[(GroupPartition, Epoch)]) -> Result<Vec<GroupPartition>, CoordinatorError> {
        self.sessions.moved(owned).await
    }

    async fn vacant(&self, group: &GroupName, topic: &Topic, partitions: u32) -> Result<Vec<Vacant>, CoordinatorError> {
        owned::vacant(&self.sessions.first, group, topic, partitions).await
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.sessions.first.wire.granted().unwrap_or(self.patience) + vacancy::GRACE)
    }

    async fn standing(&self, at: &[GroupPartition]) -> Result<Vec<Standing>, CoordinatorError> {
        owned::standing(&self.sessions.first, at).await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.clone()
    }

    fn lease(&self) -> Lease {
        self.lease.clone()
    }

    fn missing(&self) -> Vec<String> {
        let trouble = self.sessions.trouble();
        if trouble.is_empty() { self.sessions.first.missing().into_iter().collect() } else { trouble }
    }
}

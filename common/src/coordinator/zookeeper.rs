//! The coordinator over `ZooKeeper`: any number of processes share partitions, and lose nothing.
//!
//! One owner task has a session and everything that hangs on it (`session`, `state`). A verb runs in
//! a task of its own, to its end: it reads (`core`, `wire`), decides by pure rules (`claim` beside
//! this module, `outcome`), writes one transaction, and tells the owner what became of it. What is
//! not answered is sent again, the same, on the same session, until it is known. The library that
//! speaks to the servers is behind `servers`.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::brokers::{BrokersError, registered_brokers};
use self::core::Core;
pub use self::ensemble::{Ensemble, EnsembleError};
pub use self::metrics::Metrics;
use self::servers::{Door, Network};
use self::session::{Ends, Session};
use self::state::State;
use self::store::Then;
use self::wire::{Status, Wire};
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
#[cfg(test)]
mod model;
mod outcome;
mod owned;
mod paths;
mod servers;
mod session;
mod state;
mod store;
mod wire;

/// Questions to the owner of a session that wait; more wait at their senders.
const MAX_WAITING: usize = 1024;

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
    core: Core,
    hints: watch::Receiver<u64>,
    lease: Lease,
    /// How long the answer to a verb is waited for; what was begun goes on.
    patience: Duration,
    _stop: DropGuard,
}

impl ZooKeeperCoordinator {
    /// Connects in the background; needs a tokio runtime.
    pub fn open(options: Options, metrics: &Metrics) -> Self {
        Self::through(Network(options.clone()), options, metrics)
    }

    fn through<D: Door>(door: D, options: Options, metrics: &Metrics) -> Self {
        let (asks, asked) = mpsc::channel(MAX_WAITING);
        let trouble = format!("not connected to ZooKeeper at {} yet", options.ensemble);
        let (status, status_receiver) = watch::channel(Status { trouble, ..Status::default() });
        let (hint, hints) = watch::channel(0);
        let (holder, lease) = Lease::ending();
        let stop = CancellationToken::new();
        let patience = options.session_timeout;
        let core = Core::new(Wire::new(status_receiver, &options), asks, hint, stop.clone(), metrics.clone());
        let ends = Ends { asks: asked, status, stop: stop.clone() };
        let state = State::new(holder, options.ensemble.chroot().len());
        tokio::spawn(Session::new(door, options.ensemble, state, core.clone(), ends).run());
        core.background(foreign::watch(core.clone()));
        Self { core, hints, lease, patience, _stop: stop.drop_guard() }
    }

    /// Runs a verb to its end, whether or not it is waited for.
    async fn run<T: Send + 'static>(&self, verb: impl Future<Output = T> + Send + 'static) -> Result<T, CoordinatorError> {
        self.core.to_its_end(self.patience, verb, |_| std::future::ready(())).await
    }

    async fn run_claim(
        &self,
        at: &GroupPartition,
        verb: impl Future<Output = Result<Claim, ClaimError>> + Send + 'static,
    ) -> Result<Claim, ClaimError> {
        let (core, at) = (self.core.clone(), at.clone());
        let unwanted = async move |claimed: Result<Claim, ClaimError>| {
            if let Ok(claim) = claimed {
                claim::disown(core, at, claim.epoch).await;
            }
        };
        self.core.to_its_end(self.patience, verb, unwanted).await?
    }
}

#[async_trait]
impl Coordinator for ZooKeeperCoordinator {
    /// Waits for an older session of this process to end, however long; for another process of the
    /// same name the session timeout and 5 s.
    async fn join(&self, member: Member) -> Result<(), CoordinatorError> {
        fleet::join(self.core.clone(), member).await
    }

    async fn withdraw(&self) -> Result<(), CoordinatorError> {
        self.run(fleet::withdraw(self.core.clone())).await?
    }

    async fn leave(&self) -> Result<(), CoordinatorError> {
        self.run(fleet::leave(self.core.clone())).await?
    }

    async fn members(&self) -> Result<Vec<Member>, CoordinatorError> {
        fleet::members(&self.core).await
    }

    async fn birth(&self, group: &GroupName, topic: &Topic, birth: Birth, log: &[Log]) -> Result<Birth, CoordinatorError> {
        self.run(groups::birth(self.core.clone(), group.clone(), topic.clone(), birth, log.to_vec())).await?
    }

    async fn claim(&self, at: &GroupPartition, log: Log) -> Result<Claim, ClaimError> {
        self.run_claim(at, claim::claim(self.core.clone(), at.clone(), log)).await
    }

    async fn adopt(&self, at: &GroupPartition, epoch: Epoch, log: Log) -> Result<Claim, ClaimError> {
        self.run_claim(at, claim::adopt(self.core.clone(), at.clone(), epoch, log)).await
    }

    async fn commit(&self, commits: &[Commit]) -> Vec<Result<(), CommitError>> {
        let stored = self.run(store::store(self.core.clone(), commits.to_vec(), Then::Keep)).await;
        stored.unwrap_or_else(|error| vec![Err(error.into()); commits.len()])
    }

    async fn release(&self, last: &Commit) -> Result<(), CommitError> {
        let released = self.run(store::store(self.core.clone(), vec![last.clone()], Then::Release)).await?;
        self.core.hint();
        released.into_iter().next().unwrap_or(Ok(()))
    }

    async fn control(&self, group: &GroupName) -> Result<Control, CoordinatorError> {
        groups::control(&self.core, group).await
    }

    async fn set_paused(&self, group: &GroupName, paused: bool) -> Result<(), CoordinatorError> {
        self.run(groups::set_paused(self.core.clone(), group.clone(), paused)).await?
    }

    async fn replay(&self, replay: &Replay) -> Result<Replayed, CoordinatorError> {
        self.run(groups::replay(self.core.clone(), replay.clone())).await?
    }

    async fn moved(&self, owned: &[(GroupPartition, Epoch)]) -> Result<Vec<GroupPartition>, CoordinatorError> {
        owned::moved(&self.core, owned).await
    }

    async fn vacant(&self, group: &GroupName, topic: &Topic, partitions: u32) -> Result<Vec<Vacant>, CoordinatorError> {
        owned::vacant(&self.core, group, topic, partitions).await
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.core.wire.granted().unwrap_or(self.patience) + vacancy::GRACE)
    }

    async fn standing(&self, at: &[GroupPartition]) -> Result<Vec<Standing>, CoordinatorError> {
        owned::standing(&self.core, at).await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.clone()
    }

    fn lease(&self) -> Lease {
        self.lease.clone()
    }

    fn missing(&self) -> Vec<String> {
        if !self.core.wire.is_connected() {
            return vec![self.core.wire.trouble()];
        }
        self.core.missing().into_iter().collect()
    }
}

//! One configured group: its pipeline and whether it may work.

use std::sync::Arc;

use common::config::{GroupConfig, Order};
use common::coordinator::{Coordinator, Lease, Losses, MemberGroup};
use common::queue::Queue;
use engine::ids::Epoch;
use engine::options::{Backoff, EventTypes, OnFailure, Options};
use engine::ports::{Gate, Processor, Progress};
use engine::task::{Budget, Label, PartitionHandle, Permission, Task};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::committer::PartitionSink;
use crate::decode::{Delivered, RecordDecoder};
use crate::member;
use crate::source::PartitionSource;

/// A group, and what it reads from and is coordinated by. Groups that share either have the same
/// `Arc` of it: by that they are known to.
#[derive(Clone)]
pub struct GroupSetup {
    pub config: GroupConfig,
    pub queue: Arc<dyn Queue>,
    pub coordinator: Arc<dyn Coordinator>,
}

/// A group as it is set up. One that is changed is another one of the same name.
pub(crate) struct Group {
    pub(crate) config: GroupConfig,
    /// As the fleet is told of it.
    pub(crate) entry: MemberGroup,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) pipeline: Arc<dyn Pipeline>,
    pub(crate) allowed: watch::Sender<Allowed>,
}

impl Group {
    pub(crate) fn new(config: GroupConfig, cluster: Arc<Cluster>, coordinator: Arc<dyn Coordinator>, pipeline: Arc<dyn Pipeline>) -> Self {
        let (allowed, _) = watch::channel(Allowed::default());
        Self { entry: member::entry(&config), config, cluster, coordinator, pipeline, allowed }
    }

    /// Whether it is set up as it should be.
    pub(crate) fn is_as(&self, setup: &GroupSetup) -> bool {
        self.config == setup.config && Arc::ptr_eq(&self.cluster.queue, &setup.queue) && Arc::ptr_eq(&self.coordinator, &setup.coordinator)
    }
}

/// What becomes of a group's records, whatever delivers them.
pub(crate) trait Pipeline: Send + Sync {
    /// As [`Task::start_behind`].
    fn start(
        &self,
        gate: EpochGate,
        label: Label,
        epoch: Epoch,
        from: Progress,
        source: PartitionSource,
        sink: PartitionSink,
    ) -> PartitionHandle;

    /// As [`Task::set_budget`].
    fn set_budget(&self, budget: Budget);
}

impl<P: Processor<Delivered>> Pipeline for Task<RecordDecoder, P> {
    fn start(
        &self,
        gate: EpochGate,
        label: Label,
        epoch: Epoch,
        from: Progress,
        source: PartitionSource,
        sink: PartitionSink,
    ) -> PartitionHandle {
        self.start_behind(gate, label, epoch, from, source, sink)
    }

    fn set_budget(&self, budget: Budget) {
        Self::set_budget(self, budget);
    }
}

/// What a group may do, and how often everything open was to be cut so far: who sees only what
/// came after a cut cuts nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) permission: Permission,
    pub(crate) cuts: u64,
    /// Of the lease, as far as the permission takes account of them.
    pub(crate) losses: Losses,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { permission: Permission::Cut, cuts: 0, losses: Losses::default() }
    }
}

impl Allowed {
    /// Returns what was permitted before. A loss of the lease cuts also when it is over.
    pub(crate) fn turn_to(&mut self, permission: Permission, losses: Losses) -> Permission {
        let taken_away = permission == Permission::Cut && self.permission != Permission::Cut;
        self.cuts += u64::from(taken_away || losses != self.losses);
        self.losses = losses;
        std::mem::replace(&mut self.permission, permission)
    }
}

/// Before one epoch of one partition: shut from the moment in which its group must not work, or its
/// ownership is over, whoever has been told of it.
pub(crate) struct EpochGate {
    pub(crate) allowed: watch::Receiver<Allowed>,
    pub(crate) lease: Lease,
    /// [`Losses::sessions`] when the partition was claimed.
    pub(crate) session: u64,
}

impl Gate for EpochGate {
    fn shut_since(&self) -> Option<Instant> {
        let Allowed { permission, losses, cuts: _ } = *self.allowed.borrow();
        let (holds, losses_now) = self.lease.look();
        // A loss that the permission does not know of is to be followed by a cut.
        if holds && permission == Permission::Run && losses == losses_now && losses.sessions == self.session {
            return None;
        }
        let now = Instant::now();
        let since = self.lease.lost_for().and_then(|lost_for| now.checked_sub(lost_for));
        Some(since.unwrap_or(now))
    }
}

/// Completions not yet stored, per partition (`protocol.md`, "Bounds").
const MAX_UNSTORED_COMPLETIONS: usize = 10_000;

pub(crate) fn options(config: &GroupConfig) -> Options {
    let on_failure = match config.bypass_failed {
        true => OnFailure::Bypass,
        false => OnFailure::AnotherRound { sleep: config.failed_sleep },
    };
    Options {
        order: match config.order {
            Order::Key => engine::options::Order::Key,
            Order::Partition => engine::options::Order::Partition,
            Order::None => engine::options::Order::None,
        },
        worker_num: config.worker_num,
        retry_times: config.retry_times,
        backoff: Backoff { initial: config.retry_backoff.initial, max: config.retry_backoff.max },
        on_failure,
        processing_timeout: config.processing_timeout,
        delay: config.delay,
        max_in_flight_records: config.max_in_flight_records,
        max_in_flight_bytes: config.max_in_flight_bytes,
        commit_interval: config.commit_interval,
        max_unstored_completions: MAX_UNSTORED_COMPLETIONS,
        event_types: EventTypes::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Permission = Permission::Run;

    #[test]
    fn a_cut_is_seen_also_by_who_looks_only_after_its_end() {
        let (sender, seen) = watch::channel(Allowed { permission: RUN, ..Allowed::default() });
        for permission in [Permission::Cut, Permission::Cut, RUN] {
            sender.send_modify(|allowed| {
                allowed.turn_to(permission, Losses::default());
            });
        }
        assert_eq!(*seen.borrow(), Allowed { permission: RUN, cuts: 1, losses: Losses::default() });
    }

    #[test]
    fn a_lease_that_was_lost_and_is_back_cuts() {
        let mut allowed = Allowed { permission: RUN, ..Allowed::default() };
        let losses = Losses { lapses: 1, sessions: 0 };
        assert_eq!(allowed.turn_to(RUN, losses), RUN);
        assert_eq!(allowed, Allowed { permission: RUN, cuts: 1, losses });
        allowed.turn_to(RUN, losses);
        assert_eq!(allowed.cuts, 1);
    }

    #[test]
    fn a_gate_is_shut_until_a_loss_is_taken_account_of_and_for_ever_after_the_session() {
        let (holder, lease) = Lease::new(true);
        let (sender, allowed) = watch::channel(Allowed { permission: RUN, ..Allowed::default() });
        let gate = EpochGate { allowed, lease: lease.clone(), session: 0 };
        let permit = || {
            sender.send_modify(|allowed| {
                allowed.turn_to(RUN, lease.losses());
            });
        };
        assert!(gate.shut_since().is_none());
        holder.end();
        assert!(gate.shut_since().is_some());
        holder.grant();
        assert!(gate.shut_since().is_some(), "nothing has been cut yet");
        permit();
        assert!(gate.shut_since().is_some(), "what was owned is not owned any more");
        let next = EpochGate { session: 1, ..gate };
        assert!(next.shut_since().is_none());
    }
}

//! One configured group: its pipeline and whether it may work.

use std::sync::Arc;
use std::time::Duration;

use common::config::{GroupConfig, Order};
use common::coordinator::{Coordinator, Lease};
use common::queue::Queue;
use engine::event::{Attempt, Event, GivenUp, Outcome};
use engine::options::{Backoff, EventTypes, OnFailure, Options};
use engine::ports::Processor;
use engine::task::{Permission, Task};
use tokio::sync::watch;

use crate::committer::Committer;
use crate::decode::{Delivered, RecordDecoder};
use crate::delivery::Delivery;
use crate::metrics::Metrics;

/// What every partition of every group needs.
pub(crate) struct Backends {
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) committer: Committer,
    pub(crate) metrics: Metrics,
    /// How long open attempts may go on once their partition is let go.
    pub(crate) grace: Duration,
}

pub(crate) struct Group {
    pub(crate) config: GroupConfig,
    pub(crate) task: Task<RecordDecoder, Permitted<Delivery>>,
    pub(crate) allowed: watch::Sender<Allowed>,
}

/// What a group may do, and how often everything open was to be cut so far: who sees only what
/// came after a cut cuts nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) permission: Permission,
    pub(crate) cuts: u64,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { permission: Permission::Cut, cuts: 0 }
    }
}

impl Allowed {
    /// Returns what was permitted before.
    pub(crate) fn turn_to(&mut self, permission: Permission) -> Permission {
        self.cuts += u64::from(permission == Permission::Cut && self.permission != Permission::Cut);
        std::mem::replace(&mut self.permission, permission)
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

/// A processor that is asked only while its group may work, tested immediately before every
/// attempt: what the fleet decided reaches the partition loops a moment later. The delivery tests
/// the lease itself, before attempts; here it is tested before dead letters, too.
pub(crate) struct Permitted<P> {
    pub(crate) inner: P,
    pub(crate) allowed: watch::Receiver<Allowed>,
    pub(crate) lease: Lease,
}

impl<P: Processor<Delivered>> Processor<Delivered> for Permitted<P> {
    async fn process(&self, event: &Event<Delivered>, attempt: Attempt) -> Outcome {
        let permission = self.allowed.borrow().permission;
        match permission {
            Permission::Run => self.inner.process(event, attempt).await,
            Permission::Pause | Permission::Cut => Outcome::Cut,
        }
    }

    async fn bypass(&self, event: &Event<Delivered>, given_up: &GivenUp) -> Result<(), String> {
        match self.lease.holds() {
            true => self.inner.bypass(event, given_up).await,
            false => Err("this process may not write while its lease does not hold".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_seen_also_by_who_looks_only_after_its_end() {
        let (sender, seen) = watch::channel(Allowed { permission: Permission::Run, cuts: 0 });
        for permission in [Permission::Cut, Permission::Cut, Permission::Run] {
            sender.send_modify(|allowed| {
                allowed.turn_to(permission);
            });
        }
        assert_eq!(*seen.borrow(), Allowed { permission: Permission::Run, cuts: 1 });
    }
}

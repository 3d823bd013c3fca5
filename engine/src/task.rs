//! One group's pipeline in one process: a loop for each partition that it owns.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::event::Failure;
use crate::ids::{Epoch, Offset};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::ports::{CursorSink, Decoder, Processor, Progress, Source, WallClock};

/// A cheap handle; clones are the same task. Its partitions share its worker slots and its budget.
pub struct Task<D, P> {
    _parts: Arc<(Options, D, P)>,
}

/// How many bytes of unfinished events a task may hold over all its partitions.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub max_bytes: usize,
}

/// Names a partition in logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub topic: Arc<str>,
    pub partition: u32,
}

/// Whether attempts may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Run,
    /// No new attempt; open ones end by themselves. Processing clocks stand still.
    Pause,
    /// No new attempt, and open ones are stopped at once: cut, not failed.
    Cut,
}

impl<D: Decoder, P: Processor<D::Payload>> Task<D, P> {
    /// `group` names the task in logs and metrics. Must be called inside a tokio runtime.
    pub fn new(
        group: &str,
        options: Options,
        decoder: D,
        processor: P,
        budget: Budget,
        metrics: &Metrics,
        clock: Arc<dyn WallClock>,
    ) -> Self {
        let _ = (group, budget, metrics, clock);
        Self { _parts: Arc::new((options, decoder, processor)) }
    }

    /// Starts the loop of a partition at `from`. The loop of its former epoch, if it was in this
    /// process, must have been released. Dropping the handle stops the loop and cuts its attempts.
    pub fn start<S, C>(&self, label: Label, epoch: Epoch, from: Progress, source: S, sink: C) -> PartitionHandle
    where
        S: Source<Record = D::Record>,
        C: CursorSink,
    {
        let _ = (label, epoch, from, source, sink);
        unimplemented!()
    }
}

/// A running partition loop.
#[derive(Debug)]
pub struct PartitionHandle {}

impl PartitionHandle {
    pub fn set_permission(&self, permission: Permission) {
        let _ = permission;
    }

    /// As of a moment ago.
    pub async fn status(&self) -> Status {
        unimplemented!()
    }

    /// Takes no more; open attempts end within `grace` or are cut; then says how far it came. That
    /// progress is not committed: the caller stores it together with giving up the ownership.
    pub async fn release(self, grace: Duration) -> Progress {
        let _ = grace;
        unimplemented!()
    }

    /// Resolves when the loop stops by itself. Cancel safe. The handle may still be released.
    pub async fn ended(&mut self) -> Ended {
        unimplemented!()
    }
}

/// Why a loop stopped by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Source(crate::ports::SourceError),
    OwnershipOver(String),
}

/// For operators.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub progress: Progress,
    /// The next offset that would be read.
    pub position: Offset,
    pub in_flight: usize,
    pub unfinished: usize,
    pub unfinished_bytes: usize,
    pub pending_retries: usize,
    pub done_above_cursor: u64,
    pub oldest: Option<Oldest>,
    /// Why nothing more is read, if so; the blocking offset is `oldest`.
    pub blocked: Option<Blocked>,
}

#[derive(Clone, Debug)]
pub struct Oldest {
    pub offset: Offset,
    /// When it was admitted.
    pub since: Instant,
    pub attempts: u32,
    pub last_failure: Option<Failure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    MaxInFlightRecords,
    MaxInFlightBytes,
    Budget,
    UnstoredCompletions,
}

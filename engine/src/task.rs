//! One group's pipeline in one process: a loop for each partition that it owns.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::quality::FixedState;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::core::Core;
use crate::ids::Epoch;
use crate::metrics::{Metrics, TaskMetrics};
use crate::options::Options;
pub use crate::partition::{PartitionHandle, Permission};
use crate::partition::{PartitionLoop, attempts};
use crate::ports::{CursorSink, Decoder, Gate, Processor, Progress, Source, WallClock};
use crate::restraint::Restraint;
use crate::slots::{Budgeted, Slots};
pub use crate::status::{Blocked, Ended, Oldest, Status};

/// A cheap handle; clones are the same task. Its partitions share its worker slots and its budget.
pub struct Task<D, P> {
    shared: Arc<Shared<D>>,
    processor: Arc<P>,
}

impl<D, P> Clone for Task<D, P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), processor: Arc::clone(&self.processor) }
    }
}

/// What all partitions of a task use.
pub(crate) struct Shared<D> {
    pub(crate) group: String,
    pub(crate) options: Arc<Options>,
    pub(crate) decoder: D,
    pub(crate) slots: Slots,
    pub(crate) restraint: Restraint,
    pub(crate) budget: Budgeted,
    pub(crate) metrics: TaskMetrics,
    pub(crate) clock: Arc<dyn WallClock>,
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
        let options = options.within_time();
        let shared = Shared {
            group: group.to_owned(),
            slots: Slots::new(options.worker_num, &options.event_types),
            restraint: Restraint::new(options.worker_num),
            budget: Budgeted::new(budget.max_bytes),
            metrics: metrics.for_task(group, &options),
            options: Arc::new(options),
            decoder,
            clock,
        };
        Self { shared: Arc::new(shared), processor: Arc::new(processor) }
    }

    /// From now on; what is held beyond it stays held until it is finished.
    pub fn set_budget(&self, budget: Budget) {
        self.shared.budget.resize(budget.max_bytes);
    }

    /// Starts the loop of a partition at `from`. The loop of its former epoch, if it was in this
    /// process, must have been released. Dropping the handle stops the loop and cuts its attempts.
    pub fn start<S, C>(&self, label: Label, epoch: Epoch, from: Progress, source: S, sink: C) -> PartitionHandle
    where
        S: Source<Record = D::Record>,
        C: CursorSink,
    {
        self.start_behind((), label, epoch, from, source, sink)
    }

    /// The same behind a gate.
    pub fn start_behind<S, C>(&self, gate: impl Gate, label: Label, epoch: Epoch, from: Progress, source: S, sink: C) -> PartitionHandle
    where
        S: Source<Record = D::Record>,
        C: CursorSink,
    {
        // Pauses are spread over partitions, and the same whenever the same is run again.
        let seed = FixedState::default().hash_one((&self.shared.group, &label.topic, label.partition, epoch));
        let core = Core::new(Arc::clone(&self.shared.options), epoch, from, SmallRng::seed_from_u64(seed));
        let processor = Arc::clone(&self.processor);
        let launch = move |start| attempts::run(Arc::clone(&processor), start);
        PartitionLoop::spawn(Arc::clone(&self.shared), label, core, source, sink, launch, Box::new(gate))
    }
}

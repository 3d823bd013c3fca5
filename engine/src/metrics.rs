//! What the engine counts and measures.
//!
//! Nothing is looked up per event: a task and a partition resolve their handles when they start.
//! What belongs to one partition is read at the moment of a scrape, and vanishes with it.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use self::labels::{Labels, Outcome};
pub(crate) use self::live::PartitionGauges;
use self::live::{Live, Registered};
use crate::options::{EventTypes, Options};

mod labels;
mod live;

type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// Handles of every engine metric; clones are the same metrics.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    delivered: Family<Labels<2>, Counter>,
    bypassed: Family<Labels<3>, Counter>,
    bypass_failures: Family<Labels<2>, Counter>,
    skipped: Family<Labels<3>, Counter>,
    stale: Family<Labels<1>, Counter>,
    cursor_writes: Family<Labels<1>, Counter>,
    enqueue_wait: Histograms<1>,
    process: Histograms<2>,
    live: Arc<Live>,
}

impl Metrics {
    /// Registers the engine's metrics. The caller gives the registry its prefix, and may register
    /// metrics of its own beside them.
    pub fn register(registry: &mut Registry) -> Self {
        let families = Families {
            delivered: Family::default(),
            bypassed: Family::default(),
            bypass_failures: Family::default(),
            skipped: Family::default(),
            stale: Family::default(),
            cursor_writes: Family::default(),
            enqueue_wait: Family::new_with_constructor(seconds),
            process: Family::new_with_constructor(seconds),
            live: Arc::default(),
        };
        registry.register("delivered", "Events processed with success", families.delivered.clone());
        registry.register("bypassed", "Events given up and bypassed, by the reason of their last failure", families.bypassed.clone());
        registry.register("bypass_failures", "Bypasses that failed and are tried again", families.bypass_failures.clone());
        registry.register("skipped_records", "Records passed over without an attempt", families.skipped.clone());
        registry.register("stale_results", "Results of another epoch, ignored", families.stale.clone());
        registry.register("cursor_writes", "Writes of a partition's progress", families.cursor_writes.clone());
        let wait_help = "From when an event could have been attempted to its first attempt";
        registry.register("enqueue_wait_seconds", wait_help, families.enqueue_wait.clone());
        registry.register("process_seconds", "Duration of an attempt", families.process.clone());
        registry.register_collector(Box::new(Arc::clone(&families.live)));
        Self(Arc::new(families))
    }

    /// Counts records that were passed over outside of a partition loop. `reason` is from a small
    /// fixed enumeration.
    pub fn skipped(&self, group: &str, topic: &str, reason: &'static str, records: u64) {
        let labels = Labels([("group", group.into()), ("topic", topic.into()), ("reason", reason.into())]);
        self.0.skipped.get_or_create(&labels).inc_by(records);
    }

    /// Shows a reason of bypassing at 0 from now on: a rate misses the first increment of a series
    /// that begins with it.
    pub fn expect_bypassed(&self, group: &str, topic: &str, reason: &'static str) {
        let labels = Labels([("group", group.into()), ("topic", topic.into()), ("reason", reason.into())]);
        drop(self.0.bypassed.get_or_create(&labels));
    }

    /// Ends the series of a group in one topic. Nothing of it may run any more. `reasons`: of bypassing
    /// and of passing over, as far as they may have occurred.
    pub fn forget_topic(&self, group: &str, topic: &str, reasons: impl IntoIterator<Item = &'static str>) {
        let by_topic = Labels([("group", group.into()), ("topic", topic.into())]);
        self.0.delivered.remove(&by_topic);
        self.0.bypass_failures.remove(&by_topic);
        for reason in reasons {
            let labels = by_topic.with("reason", reason);
            self.0.bypassed.remove(&labels);
            self.0.skipped.remove(&labels);
        }
    }

    /// Ends the series of a group that are not of one topic.
    pub fn forget_task(&self, group: &str, event_types: &EventTypes) {
        let by_group = Labels([("group", group.into())]);
        self.0.stale.remove(&by_group);
        self.0.enqueue_wait.remove(&by_group);
        for event_type in event_types.names().chain(["other"]) {
            self.0.process.remove(&Labels([("group", group.into()), ("event_type", event_type.into())]));
        }
    }

    pub(crate) fn for_task(&self, group: &str, options: &Options) -> TaskMetrics {
        let process =
            |event_type: &str| self.0.process.get_or_create_owned(&Labels([("group", group.into()), ("event_type", event_type.into())]));
        let by_group = Labels([("group", group.into())]);
        TaskMetrics {
            group: group.into(),
            enqueue_wait: self.0.enqueue_wait.get_or_create_owned(&by_group),
            stale: self.0.stale.get_or_create_owned(&by_group),
            process: options.event_types.names().map(process).collect(),
            process_other: process("other"),
            written: Outcome::ALL.map(|outcome| self.0.cursor_writes.get_or_create_owned(&Labels([("outcome", outcome.name().into())]))),
            families: self.clone(),
        }
    }
}

/// The handles of one task.
#[derive(Debug)]
pub(crate) struct TaskMetrics {
    group: Arc<str>,
    pub(crate) enqueue_wait: Histogram,
    pub(crate) stale: Counter,
    process: Vec<Histogram>,
    process_other: Histogram,
    written: [Counter; 3],
    families: Metrics,
}

impl TaskMetrics {
    pub(crate) fn process(&self, event_type: crate::event::EventType) -> &Histogram {
        self.process.get(usize::from(event_type.0)).unwrap_or(&self.process_other)
    }

    pub(crate) fn written(&self, outcome: &Result<(), crate::ports::CommitError>) {
        self.written[Outcome::of(outcome) as usize].inc();
    }

    pub(crate) fn for_partition(&self, topic: &Arc<str>, partition: u32) -> PartitionMetrics {
        let by_topic = Labels([("group", Arc::clone(&self.group)), ("topic", Arc::clone(topic))]);
        let families = &self.families.0;
        PartitionMetrics {
            delivered: families.delivered.get_or_create_owned(&by_topic),
            bypass_failures: families.bypass_failures.get_or_create_owned(&by_topic),
            gauges: families.live.register(PartitionGauges::new(&self.group, topic, partition)),
            by_topic,
            families: self.families.clone(),
        }
    }
}

/// The handles of one partition; dropping them removes its series.
#[derive(Debug)]
pub(crate) struct PartitionMetrics {
    pub(crate) delivered: Counter,
    pub(crate) bypass_failures: Counter,
    pub(crate) gauges: Registered,
    by_topic: Labels<2>,
    families: Metrics,
}

impl PartitionMetrics {
    pub(crate) fn bypassed(&self, reason: &'static str) {
        self.families.0.bypassed.get_or_create(&self.by_topic.with("reason", reason)).inc();
    }

    pub(crate) fn skipped(&self, reason: &'static str) {
        self.families.0.skipped.get_or_create(&self.by_topic.with("reason", reason)).inc();
    }
}

/// 100 µs to about 100 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.5, 16))
}

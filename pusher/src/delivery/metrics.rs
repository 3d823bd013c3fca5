//! What delivery counts and measures.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::reason::Reason;

/// From half a millisecond to a minute, roughly doubling.
const ATTEMPT_SECONDS: [f64; 16] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Outcomes that are no failures.
const DONE: &str = "done";
const CUT: &str = "cut";

/// The families of every group; clones are the same metrics.
#[derive(Clone, Debug)]
pub struct DeliveryMetrics {
    attempts: Family<AttemptLabels, Counter>,
    attempt_seconds: Family<GroupLabel, Histogram, fn() -> Histogram>,
    free_retries: Family<GroupLabel, Counter>,
    pushed_raw: Family<GroupLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabel {
    group: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    group: String,
    outcome: &'static str,
}

impl DeliveryMetrics {
    /// Call once for each registry; its prefix is the caller's.
    pub fn register(registry: &mut Registry) -> Self {
        let attempt_seconds: fn() -> Histogram = || Histogram::new(ATTEMPT_SECONDS);
        let metrics = Self {
            attempts: Family::default(),
            attempt_seconds: Family::new_with_constructor(attempt_seconds),
            free_retries: Family::default(),
            pushed_raw: Family::default(),
        };
        registry.register("attempts", "Delivery attempts, by what came of them", metrics.attempts.clone());
        registry.register("attempt_duration_seconds", "From the start of an attempt to its end", metrics.attempt_seconds.clone());
        registry.register(
            "free_retries",
            "Requests sent again because a reused connection closed before any byte of an answer; they cost no attempt",
            metrics.free_retries.clone(),
        );
        registry.register(
            "json_pushed_raw",
            "Records that serializer json could not read and pushed as they are",
            metrics.pushed_raw.clone(),
        );
        metrics
    }

    /// For [`RecordDecoder::new`](crate::decode::RecordDecoder::new).
    pub fn pushed_raw(&self, group: &str) -> Counter {
        self.pushed_raw.get_or_create_owned(&GroupLabel { group: group.to_owned() })
    }

    /// Ends the series of a group that is configured no more, and of which nothing runs.
    pub(crate) fn forget(&self, group: &str) {
        let label = GroupLabel { group: group.to_owned() };
        self.attempt_seconds.remove(&label);
        self.free_retries.remove(&label);
        self.pushed_raw.remove(&label);
        for outcome in Reason::ALL.map(Reason::label).into_iter().chain([DONE, CUT]) {
            self.attempts.remove(&AttemptLabels { group: label.group.clone(), outcome });
        }
    }

    pub(crate) fn of_group(&self, group: &str) -> GroupMetrics {
        let label = GroupLabel { group: group.to_owned() };
        GroupMetrics {
            group: label.group.clone(),
            attempts: self.attempts.clone(),
            delivered: self.attempts.get_or_create_owned(&AttemptLabels { group: label.group.clone(), outcome: DONE }),
            attempt_seconds: self.attempt_seconds.get_or_create_owned(&label),
            free_retries: self.free_retries.get_or_create_owned(&label),
        }
    }
}

/// One group's handles. What happens for every message is resolved; failures are looked up.
#[derive(Debug)]
pub(crate) struct GroupMetrics {
    group: String,
    attempts: Family<AttemptLabels, Counter>,
    pub(crate) delivered: Counter,
    pub(crate) attempt_seconds: Histogram,
    pub(crate) free_retries: Counter,
}

impl GroupMetrics {
    pub(crate) fn failed(&self, reason: Reason) {
        self.ended(reason.label());
    }

    /// The attempt was stopped from outside.
    pub(crate) fn cut(&self) {
        self.ended(CUT);
    }

    fn ended(&self, outcome: &'static str) {
        self.attempts.get_or_create(&AttemptLabels { group: self.group.clone(), outcome }).inc();
    }
}

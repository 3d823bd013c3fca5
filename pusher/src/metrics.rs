//! What the fleet counts. The engine and the delivery register their own.

use common::config::GroupConfig;
use common::coordinator::Began;
use common::ids::GroupPartition;
use engine::event::Failure;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::delivery::Reason;

/// Handles; clones are the same metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    engine: engine::metrics::Metrics,
    claims: Family<ClaimLabels, Counter>,
    claim_failures: Family<TopicLabels, Counter>,
    read_failures: Family<TopicLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClaimLabels {
    group: String,
    topic: String,
    began: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicLabels {
    group: String,
    topic: String,
}

impl Metrics {
    /// `engine` counts the records that a claim passes over together with those that a loop does.
    pub(crate) fn register(registry: &mut Registry, engine: engine::metrics::Metrics) -> Self {
        let metrics = Self { engine, claims: Family::default(), claim_failures: Family::default(), read_failures: Family::default() };
        registry.register("claims", "Partitions taken over, by where their cursor came from", metrics.claims.clone());
        registry.register("claim_failures", "Attempts to take a partition over that failed", metrics.claim_failures.clone());
        registry.register("read_failures", "Reads from the queue that failed and are tried again", metrics.read_failures.clone());
        metrics
    }

    /// Shows what may happen to a group at 0 before it does: a rate misses the first increment of a
    /// series that begins with it.
    pub(crate) fn expect(&self, group: &GroupConfig) {
        let reasons = Reason::ALL.map(Reason::label);
        let timeout = group.processing_timeout.map(|_| Failure::PROCESSING_TIMEOUT);
        for topic in &group.topics {
            self.engine.skipped(group.group.as_str(), topic.as_str(), label(Began::BelowFirst { skipped: 0 }), 0);
            for reason in reasons.into_iter().chain(timeout).chain([Failure::PANIC]).filter(|_| group.bypass_failed) {
                self.engine.expect_bypassed(group.group.as_str(), topic.as_str(), reason);
            }
        }
    }

    /// What a claim found: see [`Began`].
    pub(crate) fn claimed(&self, at: &GroupPartition, began: Began) {
        let TopicLabels { group, topic } = TopicLabels::of(at);
        if let Began::BelowFirst { skipped } = began {
            self.engine.skipped(&group, &topic, label(began), skipped);
        }
        self.claims.get_or_create(&ClaimLabels { group, topic, began: label(began) }).inc();
    }

    /// Every try counts: a rate above zero is a partition that nobody serves.
    pub(crate) fn claim_failed(&self, at: &GroupPartition) {
        self.claim_failures.get_or_create(&TopicLabels::of(at)).inc();
    }

    pub(crate) fn read_failed(&self, at: &GroupPartition) {
        self.read_failures.get_or_create(&TopicLabels::of(at)).inc();
    }
}

impl TopicLabels {
    fn of(at: &GroupPartition) -> Self {
        Self { group: at.group.to_string(), topic: at.topic.to_string() }
    }
}

fn label(began: Began) -> &'static str {
    match began {
        Began::AtCursor => "at_cursor",
        Began::AtBirth => "at_birth",
        Began::BelowFirst { .. } => "below_first",
        Began::LogTruncated { .. } => "log_truncated",
        Began::TopicRecreated { .. } => "topic_recreated",
    }
}

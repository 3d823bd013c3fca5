//! What the fleet counts. The engine and the delivery register their own.

use common::config::GroupConfig;
use common::coordinator::Began;
use common::ids::GroupPartition;
use engine::event::Failure;
use engine::options::EventTypes;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::delivery::{DeliveryMetrics, Reason};

/// Handles; clones are the same metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    engine: engine::metrics::Metrics,
    delivery: DeliveryMetrics,
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
    pub(crate) fn register(registry: &mut Registry, engine: engine::metrics::Metrics, delivery: DeliveryMetrics) -> Self {
        let metrics =
            Self { engine, delivery, claims: Family::default(), claim_failures: Family::default(), read_failures: Family::default() };
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

    /// Ends the series of what a group was and is not any more: of its topics, or of all of it.
    pub(crate) fn forget(&self, former: &GroupConfig, present: Option<&GroupConfig>) {
        let group = former.group.as_str();
        let reasons = || Reason::ALL.map(Reason::label).into_iter().chain([Failure::PROCESSING_TIMEOUT, Failure::PANIC]).chain(BEGAN);
        for topic in former.topics.iter().filter(|topic| present.is_none_or(|present| !present.topics.contains(topic))) {
            self.engine.forget_topic(group, topic.as_str(), reasons());
            let labels = TopicLabels { group: group.to_owned(), topic: topic.to_string() };
            self.claim_failures.remove(&labels);
            self.read_failures.remove(&labels);
            for began in BEGAN {
                self.claims.remove(&ClaimLabels { group: group.to_owned(), topic: topic.to_string(), began });
            }
        }
        if present.is_none() {
            self.engine.forget_task(group, &EventTypes::default());
            self.delivery.forget(group);
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

/// Every label that there is.
const BEGAN: [&str; 5] = ["at_cursor", "at_birth", "below_first", "log_truncated", "topic_recreated"];

fn label(began: Began) -> &'static str {
    BEGAN[match began {
        Began::AtCursor => 0,
        Began::AtBirth => 1,
        Began::BelowFirst { .. } => 2,
        Began::LogTruncated { .. } => 3,
        Began::TopicRecreated { .. } => 4,
    }]
}

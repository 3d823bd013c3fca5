//! What librdkafka's clients say of themselves, in our log, our health and our metrics.

use std::sync::Arc;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tracing::{debug, info, warn};

use super::metrics::Role;
use super::site::Site;
use super::statistics::{Observed, Statistics};

/// The ear of one client.
#[derive(Clone)]
pub(super) struct Said {
    site: Arc<Site>,
    observed: Option<Arc<Observed>>,
}

impl Said {
    pub(super) fn of(site: &Arc<Site>, role: Role, statistics: Statistics) -> Self {
        let observed = match statistics {
            Statistics::Made => Some(Arc::new(Observed::new(site.metrics.of_client(role)))),
            Statistics::None => None,
        };
        Self { site: Arc::clone(site), observed }
    }

    pub(super) fn site(&self) -> &Site {
        &self.site
    }

    /// Whether the client should make no statistics any more.
    pub(super) fn is_too_large(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| observed.is_too_large())
    }
}

impl ClientContext for Said {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => warn!(target: "mqgate::kafka", facility, "Kafka client: {text}"),
            RDKafkaLogLevel::Notice => info!(target: "mqgate::kafka", facility, "Kafka client: {text}"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => debug!(target: "mqgate::kafka", facility, "Kafka client: {text}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            // Each is told to whom it concerns: the end of a partition, and what a reader cannot read.
            Some(RDKafkaErrorCode::PartitionEOF | RDKafkaErrorCode::AutoOffsetReset) | None => {}
            Some(code) => {
                debug!(target: "mqgate::kafka", %error, "Kafka client: {reason}");
                self.site.health.hear(code, reason);
            }
        }
    }

    fn stats_raw(&self, json: &[u8]) {
        if let Some(observed) = &self.observed {
            observed.take(json);
        }
    }
}

impl ConsumerContext for Said {}

//! What librdkafka's clients say of themselves, in our log.

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tracing::{debug, info, warn};

/// For clients that have nothing more to say.
#[derive(Debug, Clone)]
pub(super) struct Said;

pub(super) fn log(level: RDKafkaLogLevel, facility: &str, text: &str) {
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
            warn!(target: "mqgate::kafka", facility, "Kafka client: {text}");
        }
        RDKafkaLogLevel::Notice => info!(target: "mqgate::kafka", facility, "Kafka client: {text}"),
        RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => debug!(target: "mqgate::kafka", facility, "Kafka client: {text}"),
    }
}

impl ClientContext for Said {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            // Each is told to whom it concerns: the end of a partition, and what a reader cannot read.
            Some(RDKafkaErrorCode::PartitionEOF | RDKafkaErrorCode::AutoOffsetReset) => {}
            _ => debug!(target: "mqgate::kafka", %error, "Kafka client: {reason}"),
        }
    }
}

impl ConsumerContext for Said {}

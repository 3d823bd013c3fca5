//! What all parts of the backend share of one cluster.

use super::brokers::Brokers;
use super::health::Health;
use super::metrics::{ClusterMetrics, KafkaMetrics};
use super::options::{Options, OptionsError};

pub(super) struct Site {
    pub(super) options: Options,
    pub(super) brokers: Brokers,
    pub(super) health: Health,
    pub(super) metrics: ClusterMetrics,
}

impl Site {
    pub(super) fn new(options: Options, metrics: &KafkaMetrics) -> Result<Self, OptionsError> {
        let brokers = Brokers::new(options.brokers.clone())?;
        let health = Health::unknown(&brokers.describe());
        let metrics = metrics.of_cluster(options.brokers.name());
        Ok(Self { options, brokers, health, metrics })
    }

    pub(super) fn missing(&self) -> Vec<String> {
        // Nothing else can be known before the brokers are.
        match self.brokers.trouble() {
            Some(unknown) if self.brokers.list().is_empty() => vec![unknown],
            // As long as the brokers that are known answer, it does not matter who else there is.
            not_read => self.health.trouble().map(|trouble| [Some(trouble), not_read]).into_iter().flatten().flatten().collect(),
        }
    }

    pub(super) fn answers(&self) {
        self.health.answers();
        self.metrics.answers.set(1);
    }

    pub(super) fn fails(&self, trouble: String) {
        self.health.fails(trouble);
        self.metrics.answers.set(0);
    }
}

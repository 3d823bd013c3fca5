//! Kafka clusters.

use std::collections::HashMap;
use std::sync::Arc;

use common::config::{Brokers, Config, CoordinatorConfig, QueueConfig, Secret};
use common::coordinator::zookeeper::{Ensemble, registered_brokers};
use common::queue::Queue;
use common::queue::kafka::{BrokerSource, KafkaMetrics, KafkaQueue, Options};
use futures_util::future::join_all;
use prometheus_client::registry::Registry;

use crate::failure::Failure;

const SECURITY_PROTOCOL: &str = "security.protocol";

/// One client of each cluster, by its brokers as the configuration has them. Nothing but the
/// brokers differs from cluster to cluster.
pub(super) struct Clusters {
    /// `None`: the queue is the embedded one.
    client: Option<Client>,
    open: HashMap<Brokers, Arc<KafkaQueue>>,
}

/// What a client is made of.
struct Client {
    /// The brokers are filled in.
    options: Options,
    /// For reading the brokers where they are registered.
    digest: Option<Secret>,
    metrics: KafkaMetrics,
}

impl Clusters {
    pub(super) fn new(config: &Config, registry: &mut Registry) -> Self {
        let QueueConfig::Kafka(kafka) = &config.queue else { return Self { client: None, open: HashMap::new() } };
        let options = Options {
            properties: kafka.properties.expose().clone(),
            partitioner: kafka.partitioner,
            compression: kafka.compression,
            auto_create_topics: kafka.auto_create_topics,
            produce_timeout: config.proxy.produce_timeout,
            max_message_bytes: config.proxy.max_message_bytes,
            ..Options::new(BrokerSource::Listed(Vec::new()))
        };
        let digest = match &config.coordinator {
            CoordinatorConfig::ZooKeeper(zookeeper) => zookeeper.digest.clone(),
            CoordinatorConfig::Embedded { .. } => None,
        };
        Self { client: Some(Client { options, digest, metrics: KafkaMetrics::register(registry) }), open: HashMap::new() }
    }

    /// Whether a broker can be reached shows later. Needs a tokio runtime.
    pub(super) fn open(&mut self, brokers: &Brokers) -> Result<Arc<KafkaQueue>, Failure> {
        if let Some(queue) = self.open.get(brokers) {
            return Ok(queue.clone());
        }
        let client = self.client.as_ref().expect("brokers are named only where the queue is Kafka");
        let options = Options { brokers: client.source(brokers), ..client.options.clone() };
        let queue = KafkaQueue::start(options, &client.metrics).map_err(Failure::usage)?;
        self.open.insert(brokers.clone(), queue.clone());
        Ok(queue)
    }

    pub(super) fn retain(&mut self, used: impl Fn(&Brokers, &Arc<dyn Queue>) -> bool) {
        self.open.retain(|brokers, queue| used(brokers, &(queue.clone() as Arc<dyn Queue>)));
    }

    pub(super) async fn shutdown(self) {
        join_all(self.open.values().map(|queue| queue.shutdown())).await;
    }
}

impl Client {
    fn source(&self, brokers: &Brokers) -> BrokerSource {
        match brokers {
            Brokers::Listed(brokers) => BrokerSource::Listed(brokers.clone()),
            Brokers::Registered(ensemble) => {
                let protocol = self.options.properties.get(SECURITY_PROTOCOL).map_or("PLAINTEXT", String::as_str).to_uppercase();
                registered(ensemble.clone(), self.digest.clone(), protocol)
            }
        }
    }
}

/// Read afresh each time; nothing is kept open in between.
fn registered(ensemble: Ensemble, digest: Option<Secret>, protocol: String) -> BrokerSource {
    let what = format!("{ensemble}/brokers/ids");
    let read = Arc::new(move || {
        let (ensemble, digest, protocol) = (ensemble.clone(), digest.clone(), protocol.clone());
        let read = async move {
            let digest = digest.as_ref().map(Secret::expose);
            registered_brokers(&ensemble, digest, &protocol).await.map_err(|error| error.to_string())
        };
        Box::pin(read) as futures_util::future::BoxFuture<'static, Result<Vec<String>, String>>
    });
    BrokerSource::Registered { what, read }
}

//! How groups are built.

use std::sync::Arc;

use common::config::PusherConfig;
use engine::ports::SystemClock;
use engine::task::{Budget, Task};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::decode::RecordDecoder;
use crate::delivery::{Delivery, DeliveryMetrics, Tls};
use crate::group::{self, Group, GroupSetup};
use crate::metrics::Metrics;
use crate::prepare::StartError;

/// What all groups have in common.
pub(crate) struct Factory {
    engine: engine::metrics::Metrics,
    delivery: DeliveryMetrics,
    pub(crate) metrics: Metrics,
    tls: Tls,
    max_buffered_bytes: usize,
    topic_changes: watch::Sender<u64>,
}

impl Factory {
    pub(crate) fn new(config: &PusherConfig, registry: &mut Registry) -> Self {
        let engine = engine::metrics::Metrics::register(registry);
        let delivery = DeliveryMetrics::register(registry);
        let metrics = Metrics::register(registry, engine.clone(), delivery.clone());
        let max_buffered_bytes = config.max_buffered_bytes;
        Self { engine, delivery, metrics, tls: Tls::system(), max_buffered_bytes, topic_changes: watch::Sender::new(0) }
    }

    /// Grows whenever the topics of a cluster changed.
    pub(crate) fn topic_changes(&self) -> watch::Receiver<u64> {
        self.topic_changes.subscribe()
    }

    /// All that are asked for, in their order: those that are set up so already, and new ones.
    /// Changes nothing of those that there are.
    pub(crate) fn groups(&self, present: &[Arc<Group>], setups: &[GroupSetup]) -> Result<Vec<Arc<Group>>, StartError> {
        let mut clusters: Vec<_> = present.iter().map(|group| group.cluster.clone()).collect();
        let budget = self.share(setups.len());
        let group = |setup: &GroupSetup| match present.iter().find(|group| group.is_as(setup)) {
            Some(group) => Ok(group.clone()),
            None => self.group(setup, self.cluster(setup, &mut clusters), budget),
        };
        setups.iter().map(group).collect()
    }

    fn group(&self, setup: &GroupSetup, cluster: Arc<Cluster>, budget: Budget) -> Result<Arc<Group>, StartError> {
        let GroupSetup { config, queue, coordinator } = setup;
        let name = config.group.as_str();
        let refused = |error: crate::delivery::TlsError| StartError::Group { group: config.group.clone(), reason: error.to_string() };
        let delivery = Delivery::new(config, queue.clone(), coordinator.lease(), &self.delivery, &self.tls).map_err(refused)?;
        let decoder = RecordDecoder::new(config.serializer, self.delivery.pushed_raw(name));
        let task = Task::new(name, group::options(config), decoder, delivery, budget, &self.engine, Arc::new(SystemClock));
        Ok(Arc::new(Group::new(config.clone(), cluster, coordinator.clone(), Arc::new(task))))
    }

    fn cluster(&self, setup: &GroupSetup, clusters: &mut Vec<Arc<Cluster>>) -> Arc<Cluster> {
        let known = clusters.iter().find(|cluster| Arc::ptr_eq(&cluster.queue, &setup.queue));
        known.cloned().unwrap_or_else(|| {
            let cluster = Cluster::follow(setup.queue.clone(), self.topic_changes.clone());
            clusters.push(cluster.clone());
            cluster
        })
    }

    /// Shows what may happen to these, and gives each its share of the bytes.
    pub(crate) fn settle(&self, groups: &[Arc<Group>]) {
        let budget = self.share(groups.len());
        for group in groups {
            self.metrics.expect(&group.config);
            group.pipeline.set_budget(budget);
        }
    }

    fn share(&self, groups: usize) -> Budget {
        Budget { max_bytes: self.max_buffered_bytes / groups.max(1) }
    }
}

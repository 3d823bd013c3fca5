//! Queues and coordinators, each opened once however many groups name it.

use std::sync::Arc;

use common::config::{Brokers, Config, GroupConfig, QueueConfig, Role};
use common::coordinator::Coordinator;
use common::queue::Queue;
use prometheus_client::registry::Registry;
use pusher::GroupSetup;

use self::clusters::Clusters;
use self::embedded::Embedded;
use self::ensembles::Ensembles;
use crate::failure::Failure;

mod clusters;
mod embedded;
mod ensembles;

pub(super) struct Backends {
    embedded: Embedded,
    clusters: Clusters,
    ensembles: Ensembles,
    /// Where messages are written to, and whose topics the admin port shows; a reload does not change it.
    main: Arc<dyn Queue>,
}

impl Backends {
    /// Blocks on the disk where something embedded is used, after a crash for as long as reading
    /// the journals takes. Kafka and `ZooKeeper` are connected in the background.
    pub(super) fn open(config: &Config, registry: &mut Registry) -> Result<Self, Failure> {
        let embedded = Embedded::open(config, registry)?;
        let (mut clusters, ensembles) = (Clusters::new(config, registry), Ensembles::new(config, registry));
        let main = match main_brokers(config) {
            Some(brokers) => clusters.open(brokers)?,
            None => embedded.queue(),
        };
        Ok(Self { embedded, clusters, ensembles, main })
    }

    pub(super) fn main(&self) -> Arc<dyn Queue> {
        self.main.clone()
    }

    /// Each group with the queue and the coordinator that it names; what is not open yet is opened.
    pub(super) fn setups(&mut self, groups: &[GroupConfig]) -> Result<Vec<GroupSetup>, Failure> {
        self.embedded.serves(groups);
        groups.iter().map(|group| self.setup(group)).collect()
    }

    fn setup(&mut self, group: &GroupConfig) -> Result<GroupSetup, Failure> {
        let queue: Arc<dyn Queue> = match &group.brokers {
            Some(brokers) => self.clusters.open(brokers)?,
            None => self.embedded.queue(),
        };
        let coordinator: Arc<dyn Coordinator> = match &group.ensemble {
            Some(ensemble) => self.ensembles.open(ensemble),
            None => self.embedded.coordinator(),
        };
        Ok(GroupSetup { config: group.clone(), queue, coordinator })
    }

    /// Lets go of what no group of `config` names any more. Who still works with it keeps it open.
    pub(super) fn retain(&mut self, config: &Config) {
        let main = self.main.clone();
        self.clusters.retain(|brokers, queue| {
            Arc::ptr_eq(&main, queue) || config.groups.iter().any(|group| group.brokers.as_ref() == Some(brokers))
        });
        self.ensembles.retain(|ensemble| config.groups.iter().any(|group| group.ensemble.as_ref() == Some(ensemble)));
    }

    /// Returns when what was taken in is written, or will not be.
    pub(super) async fn shutdown(self) {
        let Self { embedded, clusters, ensembles, main } = self;
        drop(main);
        tokio::join!(embedded.shutdown(), clusters.shutdown());
        // Whoever left the fleet has nothing in there any more; the sessions end in the background.
        drop(ensembles);
    }
}

/// The file's own, unless this process has no use for it: a pusher whose groups all name other brokers.
fn main_brokers(config: &Config) -> Option<&Brokers> {
    let QueueConfig::Kafka(kafka) = &config.queue else { return None };
    let named = config.groups.iter().filter_map(|group| group.brokers.as_ref());
    match config.role {
        Role::Pusher if named.clone().all(|brokers| *brokers != kafka.brokers) => named.last().or(Some(&kafka.brokers)),
        Role::Pusher | Role::Proxy | Role::Standalone => Some(&kafka.brokers),
    }
}

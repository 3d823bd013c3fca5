//! `ZooKeeper` ensembles, each with its chroot.

use std::collections::HashMap;
use std::sync::Arc;

use common::config::{Config, CoordinatorConfig};
use common::coordinator::ZooKeeperCoordinator;
use common::coordinator::zookeeper::{Ensemble, Metrics, Options};
use prometheus_client::registry::Registry;

/// One session for each ensemble and chroot: the credentials are the same for all.
pub(super) struct Ensembles {
    /// What sessions are made of; the ensemble is filled in. `None`: the coordinator is the embedded one.
    client: Option<(Options, Metrics)>,
    open: HashMap<Ensemble, Arc<ZooKeeperCoordinator>>,
}

impl Ensembles {
    pub(super) fn new(config: &Config, registry: &mut Registry) -> Self {
        let client = match &config.coordinator {
            CoordinatorConfig::Embedded { .. } => None,
            CoordinatorConfig::ZooKeeper(zookeeper) => {
                let options = Options {
                    ensemble: zookeeper.ensemble.clone(),
                    session_timeout: config.pusher.session_timeout,
                    digest: zookeeper.digest.as_ref().map(|digest| digest.expose().to_owned()),
                    acl: zookeeper.acl,
                };
                Some((options, Metrics::register(registry)))
            }
        };
        Self { client, open: HashMap::new() }
    }

    /// Connects in the background. Needs a tokio runtime.
    pub(super) fn open(&mut self, ensemble: &Ensemble) -> Arc<ZooKeeperCoordinator> {
        let (options, metrics) = self.client.as_ref().expect("an ensemble is named only where the coordinator is ZooKeeper");
        let opened = || Arc::new(ZooKeeperCoordinator::open(Options { ensemble: ensemble.clone(), ..options.clone() }, metrics));
        self.open.entry(ensemble.clone()).or_insert_with(opened).clone()
    }

    pub(super) fn retain(&mut self, used: impl Fn(&Ensemble) -> bool) {
        self.open.retain(|ensemble, _| used(ensemble));
    }
}

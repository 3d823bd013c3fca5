//! The parts of `mqgate standalone`, put together as `mqgate/src/serving` does, without the admin port.

use std::net::SocketAddr;
use std::sync::Arc;

use common::config::{self, Config, Overrides, QueueConfig, Role};
use common::coordinator::EmbeddedCoordinator;
use common::ids::Topic;
use common::queue::Queue;
use common::queue::embedded::{EmbeddedQueue, Options};
use common::store::Store;
use common::telemetry::Metrics;
use proxy::Proxy;
use pusher::{GroupSetup, Pusher};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// With the one partition of the topic `t`. The proxy serves at once.
pub(crate) struct Gateway {
    pub(crate) proxy: SocketAddr,
    runtime: Runtime,
    config: Config,
    queue: Arc<EmbeddedQueue>,
    coordinator: Arc<EmbeddedCoordinator>,
    metrics: Metrics,
    drain: CancellationToken,
    _folder: TempDir,
}

impl Gateway {
    pub(crate) fn start(group: Option<&Value>) -> Self {
        let (folder, mut metrics) = (tempfile::tempdir().unwrap(), Metrics::new("test"));
        let config = configuration(&folder, group);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (guard, drain) = (runtime.enter(), CancellationToken::new());
        let store = Store::open(folder.path()).unwrap();
        let QueueConfig::Embedded(options) = &config.queue else { panic!("no brokers are named") };
        let queue = EmbeddedQueue::open(store.clone(), Options::from(options), metrics.registry()).unwrap();
        runtime.block_on(queue.create_topic(&Topic::new("t").unwrap(), 1)).unwrap();
        let coordinator = Arc::new(EmbeddedCoordinator::open(&store).unwrap());
        let proxy = Proxy::bind(&config.proxy, queue.clone(), metrics.registry()).unwrap();
        let address = proxy.local_addr();
        runtime.spawn(proxy.run(drain.clone()));
        drop(guard);
        Self { proxy: address, runtime, config, queue, coordinator, metrics, drain, _folder: folder }
    }

    /// Begins to deliver.
    pub(crate) fn push(&mut self) {
        let _guard = self.runtime.enter();
        let setup = |config: &config::GroupConfig| GroupSetup {
            config: config.clone(),
            queue: self.queue.clone(),
            coordinator: self.coordinator.clone(),
        };
        let setups: Vec<GroupSetup> = self.config.groups.iter().map(setup).collect();
        let mut pusher = Pusher::start(&self.config.pusher, &setups, self.metrics.registry()).unwrap();
        let drain = self.drain.clone();
        self.runtime.spawn(async move {
            pusher.prepare(&drain).await.unwrap();
            pusher.run(drain).await.unwrap();
        });
    }
}

fn configuration(folder: &TempDir, group: Option<&Value>) -> Config {
    let file = json!({"consumer_groups": group.into_iter().collect::<Vec<_>>()}).to_string();
    let overrides = Overrides {
        listen: Some("127.0.0.1:0".to_owned()),
        admin: Some("127.0.0.1:0".to_owned()),
        data_dir: Some(folder.path().to_owned()),
        ..Overrides::default()
    };
    config::parse(Role::Standalone, "the test", file.as_bytes(), &overrides).unwrap().config
}

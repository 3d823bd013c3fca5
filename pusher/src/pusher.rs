//! A pusher from start to drain.

use std::sync::Arc;

use common::config::{GroupConfig, PusherConfig};
use common::coordinator::{Coordinator, Member};
use common::queue::Queue;
use engine::ports::SystemClock;
use engine::task::{Budget, Task};
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::admin::{self, Admin};
use crate::committer::Committer;
use crate::decode::RecordDecoder;
use crate::delivery::{Delivery, DeliveryMetrics, Tls};
use crate::directory::Directory;
use crate::fleet::Fleet;
use crate::group::{self, Allowed, Backends, Group, Permitted};
use crate::member;
use crate::metrics::Metrics;
use crate::prepare::{StartError, prepare};
use crate::readout::Readout;

/// Options, then [`prepare`](Self::prepare), then [`run`](Self::run).
pub struct Pusher {
    groups: Arc<[Arc<Group>]>,
    backends: Arc<Backends>,
    committer: JoinHandle<()>,
    me: Member,
    stage: watch::Sender<Stage>,
    directory: watch::Sender<Directory>,
    readout: Readout,
}

/// How far the start has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Starting,
    Joined,
}

impl Pusher {
    /// Builds every group's pipeline and registers the metrics; nothing is read or delivered yet.
    /// Must be called inside a tokio runtime. `registry` carries the prefix `mqgate`.
    pub fn start(
        config: &PusherConfig,
        groups: &[GroupConfig],
        queue: Arc<dyn Queue>,
        coordinator: Arc<dyn Coordinator>,
        registry: &mut Registry,
    ) -> Result<Self, StartError> {
        let engine_metrics = engine::metrics::Metrics::register(registry);
        let metrics = Metrics::register(registry, engine_metrics.clone());
        groups.iter().for_each(|group| metrics.expect(group));
        let me = member::this_process(config, groups);
        let groups = build(config, groups, &queue, &*coordinator, &engine_metrics, &DeliveryMetrics::register(registry))?;
        let (committer, committing) = Committer::spawn(coordinator.clone());
        let backends = Arc::new(Backends { queue, coordinator, committer, metrics, grace: config.drain_timeout });
        let (directory, _) = watch::channel(Directory::default());
        let readout =
            Readout::new(groups.iter().map(|group| group.config.group.clone()).collect(), directory.subscribe(), backends.queue.clone());
        registry.register_collector(Box::new(readout.clone()));
        let (stage, _) = watch::channel(Stage::Starting);
        Ok(Self { groups, backends, committer: committing, me, stage, directory, readout })
    }

    /// Writes down where each group starts in each of its topics, then joins the fleet. Tries
    /// again while queue or coordinator do not answer, until `drain`. `standalone` awaits it
    /// before it accepts its first POST, so that a topic's first message finds its groups born.
    pub async fn prepare(&mut self, drain: &CancellationToken) -> Result<(), StartError> {
        if *self.stage.borrow() == Stage::Joined {
            return Ok(());
        }
        let Some(prepared) = drain.run_until_cancelled(prepare(&self.groups, &self.backends, &self.me)).await else { return Ok(()) };
        prepared?;
        self.stage.send_replace(Stage::Joined);
        info!(instance = self.me.instance, groups = self.groups.len(), "joined the fleet");
        Ok(())
    }

    /// The routes below `/v1`, to be nested there by the admin port.
    pub fn admin_routes(&self) -> axum::Router {
        admin::routes(Admin {
            groups: self.groups.clone(),
            backends: self.backends.clone(),
            readout: self.readout.clone(),
            instance: self.me.instance.as_str().into(),
        })
    }

    /// What is missing before this pusher serves, for `/readyz`; callable after `run` took `self`.
    pub fn readiness(&self) -> impl Fn() -> Vec<String> + Clone + Send + Sync + 'static {
        let (stage, backends) = (self.stage.subscribe(), self.backends.clone());
        move || {
            let starting = *stage.borrow() == Stage::Starting;
            let missing = starting.then(|| "the pusher has not joined the fleet yet".to_owned());
            missing.into_iter().chain(backends.queue.missing()).chain(backends.coordinator.missing()).collect()
        }
    }

    /// Brings everything that is read at a scrape up to date, at most 1 s; to be awaited before
    /// the registry is encoded.
    pub fn refresh(&self) -> impl Fn() -> BoxFuture<'static, ()> + Clone + Send + Sync + 'static {
        let readout = self.readout.clone();
        move || {
            let readout = readout.clone();
            Box::pin(async move { readout.refresh().await })
        }
    }

    /// Serves until `drain`: then starts no attempt, lets open ones end until `drain_timeout`, cuts
    /// the rest, stores every last cursor, leaves the fleet, and returns. Prepares if that was not done.
    pub async fn run(mut self, drain: CancellationToken) -> Result<(), StartError> {
        self.prepare(&drain).await?;
        if *self.stage.borrow() == Stage::Joined {
            Fleet::new(self.groups, self.backends.clone(), self.me, self.directory).run(&drain).await;
        }
        if let Err(error) = self.backends.coordinator.leave().await {
            warn!(%error, "leaving the fleet failed; what was owned stays so until the session ends");
        }
        // Nobody commits any more; the coordinator is to be free for whoever closes it.
        self.committer.abort();
        drop(self.committer.await);
        Ok(())
    }
}

fn build(
    config: &PusherConfig,
    groups: &[GroupConfig],
    queue: &Arc<dyn Queue>,
    coordinator: &dyn Coordinator,
    engine_metrics: &engine::metrics::Metrics,
    delivery_metrics: &DeliveryMetrics,
) -> Result<Arc<[Arc<Group>]>, StartError> {
    let budget = Budget { max_bytes: config.max_buffered_bytes / groups.len().max(1) };
    let tls = Tls::system();
    let group = |config: &GroupConfig| {
        let name = config.group.as_str();
        let refused = |error: crate::delivery::TlsError| StartError::Group { group: config.group.clone(), reason: error.to_string() };
        let delivery = Delivery::new(config, queue.clone(), coordinator.lease(), delivery_metrics, &tls).map_err(refused)?;
        let (allowed, permitted) = watch::channel(Allowed::default());
        let processor = Permitted { inner: delivery, allowed: permitted, lease: coordinator.lease() };
        let decoder = RecordDecoder::new(config.serializer, delivery_metrics.pushed_raw(name));
        let task = Task::new(name, group::options(config), decoder, processor, budget, engine_metrics, Arc::new(SystemClock));
        Ok(Arc::new(Group { config: config.clone(), task, allowed }))
    };
    groups.iter().map(group).collect()
}

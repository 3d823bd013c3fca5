//! The composition: which part is built from which, in what order they start and end.

use std::sync::Arc;

use common::config::{Config, PusherConfig};
use common::queue::Queue;
use common::telemetry::Metrics;
use proxy::Proxy;
use pusher::Pusher;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::admin_port::{self, AdminPort};
use super::backends::Backends;
use super::banner::Addresses;
use crate::failure::Failure;

pub(super) struct Gateway {
    backends: Backends,
    proxy: Proxy,
    pusher: Pusher,
    admin: AdminPort,
}

impl Gateway {
    /// Returns when the first POST may be accepted: ports are open, the log is recovered, and it
    /// is written down where each group begins.
    pub(super) async fn start(config: &Config, drain: &CancellationToken) -> Result<Self, Failure> {
        // Ports first: a taken one is found out before anything is written.
        let produce_port = proxy::Bound::new(&config.proxy).map_err(refused)?;
        let admin_port = admin_port::Bound::new(&config.pusher)?;
        let mut metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let backends = tokio::task::block_in_place(|| Backends::open(config, metrics.registry()))?;
        let queue: Arc<dyn Queue> = backends.queue.clone();
        let proxy = produce_port.into_proxy(queue.clone(), metrics.registry());
        let pusher_config = PusherConfig { admin: admin_port.address(), ..config.pusher.clone() };
        let pusher = Pusher::start(&pusher_config, &backends.setups(&config.groups), metrics.registry());
        let mut pusher = pusher.map_err(Failure::failed)?;
        metrics.before_scrape(pusher.refresh());
        let admin = AdminPort::open(admin_port, metrics, &pusher, queue, drain);
        pusher.prepare(drain).await.map_err(Failure::failed)?;
        Ok(Self { backends, proxy, pusher, admin })
    }

    pub(super) fn addresses(&self) -> Addresses {
        Addresses { listen: self.proxy.local_addr(), admin: self.admin.address() }
    }

    /// Serves until `drain`, and then until what is under way has ended. The admin port answers to the last.
    pub(super) async fn run(self, drain: &CancellationToken) -> Result<(), Failure> {
        let Self { backends, proxy, pusher, admin } = self;
        let push = async {
            let ended = pusher.run(drain.clone()).await;
            // It ends before the drain only when it cannot serve; then there is no use in accepting.
            drain.cancel();
            ended
        };
        let (drained, pushed) = tokio::join!(proxy.run(drain.clone()), push);
        if drained.cut_connections > 0 {
            warn!(connections = drained.cut_connections, "the drain's time was over: these were closed in the middle of a request");
        }
        backends.queue.shutdown().await;
        admin.close().await;
        pushed.map_err(Failure::failed)?;
        info!("drained: what was answered is on disk, and what was delivered is written down");
        Ok(())
    }
}

fn refused(error: proxy::StartError) -> Failure {
    match error {
        proxy::StartError::OpenToAnyone(_) => Failure::usage(error),
        proxy::StartError::Listen(..) => Failure::failed(error),
    }
}

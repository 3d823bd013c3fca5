//! The composition: which part is built from which, in what order they start and end.

use std::net::SocketAddr;

use common::config::{Config, PusherConfig, Role};
use common::coordinator::CoordinatorError;
use common::telemetry::Metrics;
use proxy::Proxy;
use pusher::{Pusher, StartError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::admin_port::{self, AdminPort};
use super::backends::Backends;
use super::banner::Addresses;
use super::reload::{ReloadMetrics, Reloadable};
use crate::failure::Failure;

pub(super) struct Gateway {
    /// `None`: this process takes no messages in.
    proxy: Option<Proxy>,
    /// `None`: it pushes none out.
    pusher: Option<Pusher>,
    admin: AdminPort,
}

impl Gateway {
    /// Returns when the first POST may be accepted: ports are open, the log is recovered, and it
    /// is written down where each group begins.
    pub(super) async fn start(config: &Config, drain: &CancellationToken) -> Result<(Self, Reloadable), Failure> {
        let role = config.role;
        // Ports first: a taken one is found out before anything is written.
        let produce_port = (role != Role::Pusher).then(|| proxy::Bound::new(&config.proxy)).transpose().map_err(refused)?;
        let admin_port = admin_port::Bound::new(config)?;
        let mut metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let mut backends = tokio::task::block_in_place(|| Backends::open(config, metrics.registry()))?;
        let queue = backends.main();
        let proxy = produce_port.map(|port| port.into_proxy(queue.clone(), metrics.registry()));
        let mut pusher = match role {
            Role::Proxy => None,
            Role::Standalone | Role::Pusher => Some(push(config, admin_port.address(), &mut backends, &mut metrics)?),
        };
        let reloadable =
            Reloadable { backends, pusher: pusher.as_ref().map(Pusher::reloader), metrics: ReloadMetrics::register(metrics.registry()) };
        let admin = AdminPort::open(admin_port, metrics, pusher.as_ref(), queue, drain);
        if let (Role::Standalone, Some(pusher)) = (role, &mut pusher) {
            pusher.prepare(drain).await.map_err(cannot_push)?;
        }
        Ok((Self { proxy, pusher, admin }, reloadable))
    }

    pub(super) fn addresses(&self) -> Addresses {
        Addresses { listen: self.proxy.as_ref().map(Proxy::local_addr), admin: self.admin.address() }
    }

    /// Serves until `drain`, and then until what is under way has ended. The admin port answers to
    /// the last. `reloading` gives the backends back.
    pub(super) async fn run(self, drain: &CancellationToken, reloading: JoinHandle<Backends>) -> Result<(), Failure> {
        let Self { proxy, pusher, admin } = self;
        let push = async {
            let ended = match pusher {
                Some(pusher) => pusher.run(drain.clone()).await,
                None => return Ok(()),
            };
            // It ends before the drain only when it cannot serve; then there is no use in accepting.
            drain.cancel();
            ended
        };
        let ((), pushed) = tokio::join!(take_in(proxy, drain), push);
        match reloading.await {
            Ok(backends) => backends.shutdown().await,
            Err(error) => warn!(%error, "the reload failed, which is a fault in this program; the backends are left as they are"),
        }
        admin.close().await;
        pushed.map_err(cannot_push)?;
        info!("drained: what was answered is stored, and what was delivered is written down");
        Ok(())
    }
}

fn push(config: &Config, admin: SocketAddr, backends: &mut Backends, metrics: &mut Metrics) -> Result<Pusher, Failure> {
    let setups = backends.setups(&config.groups)?;
    // With the port that was picked, since the others of the fleet are told.
    let config = PusherConfig { admin, ..config.pusher.clone() };
    let pusher = Pusher::start(&config, &setups, metrics.registry()).map_err(cannot_push)?;
    metrics.before_scrape(pusher.refresh());
    Ok(pusher)
}

async fn take_in(proxy: Option<Proxy>, drain: &CancellationToken) {
    let Some(proxy) = proxy else { return };
    let drained = proxy.run(drain.clone()).await;
    if drained.cut_connections > 0 {
        warn!(connections = drained.cut_connections, "the drain's time was over: these were closed in the middle of a request");
    }
}

fn refused(error: proxy::StartError) -> Failure {
    match error {
        proxy::StartError::OpenToAnyone(_) => Failure::usage(error),
        proxy::StartError::Listen(..) => Failure::failed(error),
    }
}

/// A name that another process has is the command line's or the configuration's fault.
fn cannot_push(error: StartError) -> Failure {
    match error {
        StartError::Coordinator(CoordinatorError::InstanceTaken(_)) => Failure::usage(error),
        error => Failure::failed(error),
    }
}

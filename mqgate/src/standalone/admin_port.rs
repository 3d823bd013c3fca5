//! The one admin port of `standalone`, open from the first moment to the last.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use common::admin::{self, Access, Readiness};
use common::config::PusherConfig;
use common::queue::Queue;
use common::serve::{Drained, Limits, Server};
use common::telemetry::Metrics;
use hyper_util::service::TowerToHyperService;
use pusher::Pusher;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// For scrapes and people, not for traffic.
const LIMITS: Limits = Limits {
    head_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(75),
    write_timeout: Duration::from_secs(10),
    max_connections: 1024,
};

/// A scrape under way may end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The port, which nobody answers yet.
pub(super) struct Bound {
    port: Server,
    access: Access,
}

impl Bound {
    pub(super) fn new(config: &PusherConfig) -> Result<Self, Failure> {
        let asked = config.admin;
        let access = Access::new("pusher", asked, config.admin_token.clone()).map_err(Failure::usage)?;
        let taken = |error| Failure::failed(format_args!("pusher.admin: cannot listen on {asked}: {error}"));
        Ok(Self { port: Server::bind(asked, LIMITS).map_err(taken)?, access })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.port.local_addr()
    }
}

pub(super) struct AdminPort {
    address: SocketAddr,
    serving: JoinHandle<Drained>,
    close: CancellationToken,
}

impl AdminPort {
    /// Serves at once. `/readyz` says what is missing until `pusher` is prepared, and from the moment of `drain`.
    pub(super) fn open(bound: Bound, metrics: Metrics, pusher: &Pusher, queue: Arc<dyn Queue>, drain: &CancellationToken) -> Self {
        let Bound { port, access } = bound;
        let address = port.local_addr();
        let readiness = Readiness::new(drain.clone(), vec![Box::new(pusher.readiness(queue.clone()))]);
        let router = admin::router(Arc::new(metrics), readiness, access, pusher.admin_routes(queue));
        let close = CancellationToken::new();
        let serving = tokio::spawn(port.run(TowerToHyperService::new(router), close.clone(), DRAIN_TIMEOUT));
        Self { address, serving, close }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) async fn close(self) {
        self.close.cancel();
        // A panic in there has been printed, and there is nothing left to serve.
        drop(self.serving.await);
    }
}

//! The admin port of a process, open from the first moment to the last.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use common::admin::{self, Access, Readiness, Source};
use common::config::{Config, Role};
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
    /// `standalone` has the pusher's alone.
    pub(super) fn new(config: &Config) -> Result<Self, Failure> {
        let (section, asked, token) = match config.role {
            Role::Proxy => ("proxy", config.proxy.admin, &config.proxy.admin_token),
            Role::Standalone | Role::Pusher => ("pusher", config.pusher.admin, &config.pusher.admin_token),
        };
        let access = Access::new(section, asked, token.clone()).map_err(Failure::usage)?;
        let taken = |error| Failure::failed(format_args!("{section}.admin: cannot listen on {asked}: {error}"));
        Ok(Self { port: Server::bind(asked, LIMITS).map_err(taken)?, access })
    }

    /// With the port that was picked, if port 0 was asked for.
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
    /// Serves at once. `/readyz` says what is missing until all is prepared, and from the moment of `drain`.
    pub(super) fn open(bound: Bound, metrics: Metrics, pusher: Option<&Pusher>, queue: Arc<dyn Queue>, drain: &CancellationToken) -> Self {
        let Bound { port, access } = bound;
        let address = port.local_addr();
        let asked = queue.clone();
        let missing: Source = match pusher {
            Some(pusher) => Box::new(pusher.readiness(asked)),
            None => Box::new(move || asked.missing()),
        };
        let readiness = Readiness::new(drain.clone(), vec![missing]);
        let v1 = pusher.map(|pusher| pusher.admin_routes(queue)).unwrap_or_default();
        let router = admin::router(Arc::new(metrics), readiness, access, v1);
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

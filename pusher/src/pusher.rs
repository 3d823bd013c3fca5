//! A pusher from start to drain.

use std::sync::Arc;

use common::config::{GroupConfig, PusherConfig};
use common::coordinator::Coordinator;
use common::queue::Queue;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

/// Options, then [`prepare`](Self::prepare), then [`run`](Self::run).
pub struct Pusher {}

/// Why a pusher cannot serve, for good.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("group {group}: {reason}")]
    Group { group: common::ids::GroupName, reason: String },
    #[error(transparent)]
    Coordinator(#[from] common::coordinator::CoordinatorError),
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
        let _ = (config, groups, queue, coordinator, registry);
        Ok(Self {})
    }

    /// Writes down where each group starts in each of its topics, then joins the fleet. Tries
    /// again while queue or coordinator do not answer, until `drain`. `standalone` awaits it
    /// before it accepts its first POST, so that a topic's first message finds its groups born.
    pub async fn prepare(&mut self, drain: &CancellationToken) -> Result<(), StartError> {
        let _ = (&*self, drain);
        Ok(())
    }

    /// The routes below `/v1`, to be nested there by the admin port.
    pub fn admin_routes(&self) -> axum::Router {
        axum::Router::new()
    }

    /// What is missing before this pusher serves, for `/readyz`; callable after `run` took `self`.
    pub fn readiness(&self) -> impl Fn() -> Vec<String> + Clone + Send + Sync + 'static {
        Vec::new
    }

    /// Brings everything that is read at a scrape up to date, at most 1 s; to be awaited before
    /// the registry is encoded.
    pub fn refresh(&self) -> impl Fn() -> futures_util::future::BoxFuture<'static, ()> + Clone + Send + Sync + 'static {
        || Box::pin(std::future::ready(()))
    }

    /// Serves until `drain`: then starts no attempt, lets open ones end until `drain_timeout`, cuts
    /// the rest, stores every last cursor, leaves the fleet, and returns. Prepares if that was not done.
    pub async fn run(self, drain: CancellationToken) -> Result<(), StartError> {
        drain.cancelled().await;
        Ok(())
    }
}

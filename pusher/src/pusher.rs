//! A pusher from start to drain.

use std::sync::Arc;

use common::config::PusherConfig;
use common::queue::Queue;
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, Admin};
use crate::fleets::{Fleets, Reloader, Request, Requests};
use crate::group::GroupSetup;
use crate::prepare::StartError;
use crate::readout::Readout;

/// Options, then [`prepare`](Self::prepare), then [`run`](Self::run).
pub struct Pusher {
    fleets: Fleets,
    readout: Readout,
    reloader: Reloader,
    requests: Requests,
}

impl Pusher {
    /// Builds every group's pipeline and registers the metrics; nothing is read or delivered yet.
    /// Groups with the same coordinator make up one fleet. `config.admin` is told to the others: the
    /// address that was really bound. Must be called inside a tokio runtime. `registry` carries the
    /// prefix `mqgate`.
    pub fn start(config: &PusherConfig, groups: &[GroupSetup], registry: &mut Registry) -> Result<Self, StartError> {
        let fleets = Fleets::new(config, groups, registry)?;
        let readout = Readout::new(fleets.roster());
        registry.register_collector(Box::new(readout.clone()));
        let (reloader, requests) = Reloader::new();
        Ok(Self { fleets, readout, reloader, requests })
    }

    /// Writes down where each group starts in each of its topics, then joins the fleets, and serves.
    /// Tries again while a queue or coordinator does not answer, until `drain`. `standalone` awaits it
    /// before it accepts its first POST, so that a topic's first message finds its groups born.
    pub async fn prepare(&mut self, drain: &CancellationToken) -> Result<(), StartError> {
        self.fleets.begin().await;
        let served = self.fleets.all_served();
        tokio::select! {
            () = drain.cancelled() => Ok(()),
            error = self.fleets.failed() => {
                self.fleets.end().await.unwrap_or_else(|error| tracing::error!(%error, "another fleet cannot serve, either"));
                Err(error)
            }
            () = served => Ok(()),
        }
    }

    /// The routes below `/v1`, to be nested there by the admin port. Those about topics and messages
    /// are answered from `queue`.
    pub fn admin_routes(&self, queue: Arc<dyn Queue>) -> axum::Router {
        admin::routes(Admin { roster: self.fleets.roster(), readout: self.readout.clone(), instance: self.fleets.instance().into(), queue })
    }

    /// What is missing before this pusher serves every group and answers about the topics of `queue`,
    /// for `/readyz`; each thing once, however many groups need it. Callable after `run` took `self`.
    pub fn readiness(&self, queue: Arc<dyn Queue>) -> impl Fn() -> Vec<String> + Clone + Send + Sync + 'static {
        let roster = self.fleets.roster();
        move || roster.missing(&queue)
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

    /// Gives a pusher other groups while it runs; what is asked before waits for [`run`](Self::run).
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Serves until `drain`: then starts no attempt, lets open ones end until `drain_timeout`, cuts
    /// the rest, stores every last cursor, leaves the fleets, and returns. A fleet that cannot serve
    /// for good ends all. Needs no [`prepare`](Self::prepare) before.
    pub async fn run(mut self, drain: CancellationToken) -> Result<(), StartError> {
        self.fleets.begin().await;
        let failed = tokio::select! {
            () = drain.cancelled() => Ok(()),
            error = self.serve() => Err(error),
        };
        failed.and(self.fleets.end().await)
    }

    async fn serve(&mut self) -> StartError {
        loop {
            let request = tokio::select! {
                error = self.fleets.failed() => return error,
                Some(request) = self.requests.recv() => request,
            };
            let Request { groups, answer } = request;
            // Whoever asked may have stopped waiting.
            let _ = answer.send(self.fleets.apply(&groups).await);
        }
    }
}

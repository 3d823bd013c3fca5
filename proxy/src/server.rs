//! The port, and what stands behind it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use common::config::ProxyConfig;
use common::queue::Queue;
use common::serve::{Drained, Limits, Server, raise_open_files_limit};
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::router;

/// A listening port; nothing is accepted yet, and no queue is needed yet.
#[derive(Debug)]
pub struct Bound {
    server: Server,
    config: ProxyConfig,
}

/// The HTTP produce server.
pub struct Proxy {
    server: Server,
    context: Arc<Context>,
    drain_timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "proxy.listen is {0}, which other machines can reach, and nothing would ask them who they are: \
         listen on 127.0.0.1, or say \"allow_anonymous\": true in \"proxy\""
    )]
    OpenToAnyone(SocketAddr),
    #[error("proxy.listen: cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
}

impl Bound {
    /// Needs a tokio runtime.
    pub fn new(config: &ProxyConfig) -> Result<Self, StartError> {
        let address = config.listen;
        if !address.ip().is_loopback() && !config.allow_anonymous {
            return Err(StartError::OpenToAnyone(address));
        }
        let limits = Limits {
            head_timeout: config.head_timeout,
            idle_timeout: config.idle_timeout,
            write_timeout: config.body_timeout,
            max_connections: raise_open_files_limit(),
        };
        let server = Server::bind(address, limits).map_err(|error| StartError::Listen(address, error))?;
        Ok(Self { server, config: config.clone() })
    }

    /// With the port that was picked, if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// `registry` is the one that prefixes names with `mqgate_`.
    pub fn into_proxy(self, queue: Arc<dyn Queue>, registry: &mut Registry) -> Proxy {
        let context = Arc::new(Context::new(&self.config, queue, registry));
        Proxy { server: self.server, context, drain_timeout: self.config.drain_timeout }
    }
}

impl Proxy {
    /// [`Bound::new`] and [`Bound::into_proxy`] in one.
    pub fn bind(config: &ProxyConfig, queue: Arc<dyn Queue>, registry: &mut Registry) -> Result<Self, StartError> {
        Ok(Bound::new(config)?.into_proxy(queue, registry))
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// What is missing before messages can be taken; for `/readyz`.
    pub fn missing(&self) -> impl Fn() -> Vec<String> + Send + Sync + use<> {
        let queue = Arc::clone(&self.context.queue);
        move || queue.missing()
    }

    /// Serves until `drain`, then until every request under way is answered or `drain_timeout` is over.
    pub async fn run(self, drain: CancellationToken) -> Drained {
        let Self { server, context, drain_timeout } = self;
        let served = Arc::clone(&context);
        let service = service_fn(move |request: Request<Incoming>| router::answer(Arc::clone(&served), request));
        let closing = async {
            drain.cancelled().await;
            context.shut();
        };
        let (drained, ()) = tokio::join!(server.run(service, drain.clone(), drain_timeout), closing);
        drained
    }
}

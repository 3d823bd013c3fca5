//! The HTTP client: the only place that names `hyper-util`'s.
//!
//! Two clients share a connector. One keeps its connections; the other opens one for each request,
//! for the free retry, which must not meet a second stale connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

use self::connector::Connector;
pub(super) use self::failure::{Broken, Repeat};

mod connector;
mod dial;
mod failure;
mod stream;

/// At most this much of an answer's head, and of its body at once, is held; in bytes.
const MAX_BUFFERED_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Name, TCP and TLS together.
    pub(super) connect_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) connection_max_age: Duration,
    pub(super) max_idle_connections: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Over {
    /// A kept connection if there is one.
    AnyConnection,
    NewConnection,
}

type Inner = legacy::Client<Connector, Full<Bytes>>;

#[derive(Debug)]
pub(super) struct Client {
    keeping: Inner,
    fresh: Inner,
}

impl Client {
    pub(super) fn new(options: Options, tls: Option<Arc<ClientConfig>>) -> Self {
        let connector = Connector::new(options.connect_timeout, options.connection_max_age, tls);
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_timeout)
            .pool_max_idle_per_host(options.max_idle_connections)
            .http1_title_case_headers(true)
            .http1_max_buf_size(MAX_BUFFERED_BYTES)
            .set_host(false);
        let keeping = builder.build(connector.clone());
        let fresh = builder.pool_max_idle_per_host(0).build(connector);
        Self { keeping, fresh }
    }

    /// Resolves with the head of the final answer. Dropped before, it closes the connection, so that
    /// a late answer belongs to nobody.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>, over: Over) -> Result<Response<Incoming>, Broken> {
        let client = match over {
            Over::AnyConnection => &self.keeping,
            Over::NewConnection => &self.fresh,
        };
        client.request(request).await.map_err(|error| Broken::before_head(&error))
    }
}

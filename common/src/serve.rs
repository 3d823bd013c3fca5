//! Accepting HTTP/1 connections: time limits for slow clients, a bound on their number, and a
//! drain that lets answers end.
//!
//! An `axum` router is served by wrapping it in `hyper_util::service::TowerToHyperService`.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::Service;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

pub use self::open_files::raise_open_files_limit;

mod accept;
mod connection;
mod io_watch;
mod linger;
mod open_files;
mod phase;
mod places;
#[cfg(test)]
mod tests;

/// Request line and headers together; more is answered by 431.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;

const BACKLOG_CONNECTIONS: u32 = 4096;

/// What a client may take its time with, and how many clients there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first byte of a head to its last. Past it: 408 with an empty body.
    pub head_timeout: Duration,
    /// Without any byte of a request, on a fresh connection too: pools of clients and load balancers
    /// open connections ahead of their first request, and a 408 would be taken for its answer. So the
    /// connection is closed without a word.
    pub idle_timeout: Duration,
    /// A client that reads nothing of its answer for so long is cut off.
    pub write_timeout: Duration,
    /// With more of them, the one that has kept its request back for longest is closed without a word, if
    /// for half a second at least; where all have requests under way, more wait in the kernel's backlog.
    pub max_connections: usize,
}

/// A listening port whose connections are not accepted yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still busy when `drain_timeout` was over, and were closed all the same.
    pub cut_connections: usize,
}

impl Server {
    /// Listens at once; the kernel keeps what connects until [`Server::run`]. Needs a tokio runtime.
    pub fn bind(address: SocketAddr, limits: Limits) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Else a restart would wait for the old connections' TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG_CONNECTIONS)?;
        Ok(Self { address: listener.local_addr()?, listener, limits })
    }

    /// With the port that was picked, if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `drain`. Then nothing is accepted any more, idle connections are closed at once,
    /// answers under way are finished with `Connection: close`, and what is not over after
    /// `drain_timeout` is cut. Requests whose head arrives during the drain still reach the service.
    pub fn run<S, B>(self, service: S, drain: CancellationToken, drain_timeout: Duration) -> impl Future<Output = Drained> + Send
    where
        S: Service<http::Request<Incoming>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body + Unpin + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        accept::run(self.listener, self.limits, service, drain, drain_timeout)
    }
}

//! From a host name to a TCP connection.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use common::config::is_cloud_metadata;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::failure::ConnectError;

/// How long one address may take before the next is tried beside it (RFC 8305 §5).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Look-ups at a time: a resolver that hangs holds a thread for each, and threads are everybody's.
const MAX_LOOKUPS: usize = 2;

#[derive(Debug)]
pub(super) struct Resolver {
    lookups: Arc<Semaphore>,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }

    /// Asks the system each time, so that a moved address is found.
    pub(super) async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let permit = Arc::clone(&self.lookups).acquire_owned().await.expect("the semaphore is never closed");
        let name = host.to_owned();
        let lookup = tokio::task::spawn_blocking(move || {
            let _held_until_the_resolver_answers = permit;
            (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>)
        });
        match lookup.await.map_err(io::Error::other).flatten() {
            Ok(addresses) if addresses.is_empty() => Err(ConnectError::NoAddress(host.to_owned())),
            Ok(addresses) => Ok(addresses),
            Err(error) => Err(ConnectError::Dns(host.to_owned(), error)),
        }
    }
}

/// The first of the addresses that answers, asked in their order, each a moment after the one before.
pub(super) async fn dial(addresses: Vec<SocketAddr>) -> Result<TcpStream, ConnectError> {
    let mut waiting = addresses.into_iter();
    let mut dialling = FuturesUnordered::new();
    dialling.extend(waiting.next().map(dial_one));
    loop {
        let failure = tokio::select! {
            Some(result) = dialling.next() => match result {
                Ok(stream) => return Ok(stream),
                Err(failure) => Some(failure),
            },
            () = sleep(NEXT_ADDRESS_AFTER), if waiting.len() > 0 => None,
        };
        match (waiting.next(), failure) {
            (Some(next), _) => dialling.push(dial_one(next)),
            (None, Some(failure)) if dialling.is_empty() => return Err(failure),
            (None, _) => {}
        }
    }
}

async fn dial_one(address: SocketAddr) -> Result<TcpStream, ConnectError> {
    if is_cloud_metadata(address.ip()) {
        return Err(ConnectError::Forbidden(address));
    }
    let stream = TcpStream::connect(address).await.map_err(|error| ConnectError::Tcp(address, error))?;
    stream.set_nodelay(true).map_err(|error| ConnectError::Tcp(address, error))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_dead_address_does_not_hide_a_live_one() {
        let live = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let reached = dial(vec![dead, live.local_addr().unwrap()]).await.unwrap();
        assert_eq!(reached.peer_addr().unwrap(), live.local_addr().unwrap());
        assert!(reached.nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_forbidden_address_is_never_dialled() {
        let forbidden = "169.254.169.254:80".parse().unwrap();
        assert!(matches!(dial(vec![forbidden]).await, Err(ConnectError::Forbidden(address)) if address == forbidden));
    }

    #[tokio::test]
    async fn a_literal_address_asks_no_resolver() {
        let resolver = Resolver { lookups: Arc::new(Semaphore::new(0)) };
        assert_eq!(resolver.resolve("::1", 80).await.unwrap(), ["[::1]:80".parse().unwrap()]);
    }
}

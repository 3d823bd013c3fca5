//! Opens the connections of one group: http and https, HTTP/1.1.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::dial::{Resolver, dial};
use super::failure::ConnectError;
use super::stream::{Stream, Transport};

/// Cheap to clone; clones share their resolver.
#[derive(Clone)]
pub(super) struct Connector(Arc<Inner>);

struct Inner {
    connect_timeout: Duration,
    connection_max_age: Duration,
    resolver: Resolver,
    /// `None` for a group whose URL is http. A group has one URL, so every connection is of one kind.
    tls: Option<TlsConnector>,
}

impl Connector {
    pub(super) fn new(connect_timeout: Duration, connection_max_age: Duration, tls: Option<Arc<ClientConfig>>) -> Self {
        Self(Arc::new(Inner { connect_timeout, connection_max_age, resolver: Resolver::new(), tls: tls.map(TlsConnector::from) }))
    }
}

impl Inner {
    async fn connect(&self, uri: &Uri) -> Result<TokioIo<Stream>, ConnectError> {
        let transport = timeout(self.connect_timeout, self.transport(uri)).await;
        let transport = transport.map_err(|_| ConnectError::TimedOut(self.connect_timeout))??;
        Ok(TokioIo::new(Stream::new(transport, self.connection_max_age)))
    }

    async fn transport(&self, uri: &Uri) -> Result<Transport, ConnectError> {
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let default_port = if self.tls.is_some() { 443 } else { 80 };
        let tcp = dial(self.resolver.resolve(host, uri.port_u16().unwrap_or(default_port)).await?).await?;
        match &self.tls {
            Some(tls) => secure(tls, host, tcp).await,
            None => Ok(Transport::Plain(tcp)),
        }
    }
}

async fn secure(tls: &TlsConnector, host: &str, tcp: TcpStream) -> Result<Transport, ConnectError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| ConnectError::NoAddress(host.to_owned()))?;
    Ok(Transport::Tls(Box::new(tls.connect(name, tcp).await.map_err(ConnectError::Tls)?)))
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.connect(&uri).await })
    }
}

//! A certificate authority, and receivers behind TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

/// An authority of our own.
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// What a server shows.
pub struct Identity {
    certificate: Certificate,
    key: KeyPair,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { certificate: params.self_signed(&key).unwrap(), issuer: Issuer::new(params, key) }
    }

    pub fn write_pem(&self, file: &Path) {
        std::fs::write(file, self.certificate.pem()).unwrap();
    }

    pub fn certify(&self, name: &str, change: impl Fn(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        Identity { certificate: params.signed_by(&key, &self.issuer).unwrap(), key }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Identity {
    pub fn self_signed(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        Self { certificate: CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap(), key }
    }

    /// In one file, as a Java server reads it.
    pub fn write_key_and_certificate(&self, file: &Path) {
        std::fs::write(file, self.key.serialize_pem() + &self.certificate.pem()).unwrap();
    }

    fn acceptor(&self) -> TlsAcceptor {
        crate::producer::install_tls_provider();
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        TlsAcceptor::from(Arc::new(config.with_single_cert(vec![self.certificate.der().clone()], key).unwrap()))
    }
}

/// Takes TLS off and hands what is inside to a receiver. Dropped, it closes its port.
pub struct TlsFront {
    pub addr: SocketAddr,
    _stop: DropGuard,
}

impl TlsFront {
    pub async fn start(identity: &Identity, receiver: SocketAddr) -> Self {
        let (acceptor, token) = (identity.acceptor(), CancellationToken::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let stop = token.clone();
        tokio::spawn(async move {
            while let Some(Ok((stream, _))) = stop.run_until_cancelled(listener.accept()).await {
                tokio::spawn(forward(acceptor.clone(), stream, receiver));
            }
        });
        Self { addr, _stop: token.drop_guard() }
    }
}

async fn forward(acceptor: TlsAcceptor, stream: TcpStream, receiver: SocketAddr) -> std::io::Result<()> {
    let mut inside = acceptor.accept(stream).await?;
    let mut behind = TcpStream::connect(receiver).await?;
    tokio::io::copy_bidirectional(&mut inside, &mut behind).await.map(drop)
}

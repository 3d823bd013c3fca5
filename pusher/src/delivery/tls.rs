//! Whose certificates are trusted. They are always verified; there is no switch.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// What every https connection of the process is checked against; clones are the same.
#[derive(Clone, Debug)]
pub struct Tls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    trust: Trust,
    config: OnceLock<Arc<ClientConfig>>,
}

#[derive(Debug)]
enum Trust {
    System,
    Only(RootCertStore),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl Tls {
    /// The machine's certificate store, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name instead;
    /// where a machine has none at all, the authorities that browsers trust, as this build knows
    /// them. Read when the first https group is built.
    pub fn system() -> Self {
        Self::of(Trust::System)
    }

    /// These authorities and no others.
    pub fn trusting(authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| TlsError(format!("a certificate authority cannot be used: {error}")))?;
        }
        Ok(Self::of(Trust::Only(roots)))
    }

    fn of(trust: Trust) -> Self {
        Self(Arc::new(Inner { trust, config: OnceLock::new() }))
    }

    pub(super) fn client(&self) -> Result<Arc<ClientConfig>, TlsError> {
        if let Some(config) = self.0.config.get() {
            return Ok(Arc::clone(config));
        }
        let roots = match &self.0.trust {
            Trust::System => system_roots()?,
            Trust::Only(roots) => roots.clone(),
        };
        Ok(Arc::clone(self.0.config.get_or_init(|| Arc::new(verifying(roots)))))
    }
}

fn verifying(roots: RootCertStore) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring offers what TLS 1.2 and 1.3 need")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    let named = std::env::var_os("SSL_CERT_FILE").or_else(|| std::env::var_os("SSL_CERT_DIR"));
    match (usable, named) {
        (0, Some(path)) => {
            let faults: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
            Err(TlsError(format!(
                "no certificate can be read from {} (SSL_CERT_FILE, SSL_CERT_DIR): {}",
                path.display(),
                faults.join("; ")
            )))
        }
        (0, None) => {
            tracing::info!("this machine has no certificate store; https callbacks are checked against the built-in list of authorities");
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            Ok(roots)
        }
        (_, _) => Ok(roots),
    }
}

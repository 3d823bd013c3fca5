//! Whose certificates are trusted. They are always verified; there is no switch.

use std::ffi::OsStr;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;

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
    let named = std::env::var_os("SSL_CERT_FILE").or_else(|| std::env::var_os("SSL_CERT_DIR"));
    roots_of(rustls_native_certs::load_native_certs(), named.as_deref())
}

/// `named` is what the operator chose instead of the machine's store.
fn roots_of(found: CertificateResult, named: Option<&OsStr>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn found(certs: Vec<CertificateDer<'static>>) -> CertificateResult {
        let mut found = CertificateResult::default();
        found.certs = certs;
        found
    }

    fn certificate() -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        CertificateParams::new([]).unwrap().self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn the_machines_store_is_trusted_and_nothing_beside_it() {
        assert_eq!(roots_of(found(vec![certificate()]), None).unwrap().len(), 1);
        assert_eq!(roots_of(found(vec![certificate(), certificate()]), Some(OsStr::new("/ca.pem"))).unwrap().len(), 2);
    }

    #[test]
    fn a_machine_without_a_store_gets_the_built_in_one() {
        assert_eq!(roots_of(found(vec![]), None).unwrap().len(), webpki_roots::TLS_SERVER_ROOTS.len());
    }

    #[test]
    fn a_chosen_store_that_cannot_be_read_is_a_fault_and_no_reason_to_trust_others() {
        let fault = roots_of(found(vec![CertificateDer::from(b"rubbish".to_vec())]), Some(OsStr::new("/ca.pem"))).unwrap_err();
        assert!(fault.to_string().contains("/ca.pem"), "{fault}");
    }

    #[test]
    fn an_authority_that_is_no_certificate_is_refused() {
        assert!(Tls::trusting([CertificateDer::from(b"rubbish".to_vec())]).is_err());
    }
}

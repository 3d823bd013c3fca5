//! A broker that asks who one is: TLS with a certificate of our own authority, and passwords.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use rcgen::DnType;
use tempfile::TempDir;

use crate::ports;
use crate::tls::Authority;

pub const USER: &str = "mqgate";
pub const PASSWORD: &str = "a password";
/// What the broker offers.
pub const MECHANISMS: [&str; 3] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];

/// What a broker needs for it.
pub struct Security {
    addr: SocketAddr,
    dir: TempDir,
}

impl Security {
    pub fn new() -> Self {
        let security = Self { addr: ports::free(), dir: tempfile::tempdir().unwrap() };
        let authority = Authority::new();
        authority.write_pem(&security.authority());
        // By default it is named as its issuer is, and OpenSSL takes it for one that has signed itself.
        let broker = authority.certify("127.0.0.1", |params| params.distinguished_name.push(DnType::CommonName, "broker"));
        broker.write_key_and_certificate(&security.file("broker.pem"));
        Authority::new().write_pem(&security.other_authority());
        security
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Of the certificate's authority.
    pub fn authority(&self) -> PathBuf {
        self.file("authority.pem")
    }

    /// Of one that has nothing to do with it.
    pub fn other_authority(&self) -> PathBuf {
        self.file("other-authority.pem")
    }

    /// What a client sets to be let in.
    pub fn properties(&self, mechanism: &str) -> BTreeMap<String, String> {
        let authority = self.authority().to_str().unwrap().to_owned();
        let all = [
            ("security.protocol", "SASL_SSL"),
            ("ssl.ca.location", &authority),
            ("sasl.mechanism", mechanism),
            ("sasl.username", USER),
            ("sasl.password", PASSWORD),
        ];
        all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    pub(super) fn configuration(&self) -> String {
        let own = "listener.name.secure.";
        let login = "org.apache.kafka.common.security";
        format!(
            "{own}ssl.keystore.type=PEM\n{own}ssl.keystore.location={}\n{own}sasl.enabled.mechanisms={}\n\
             {own}plain.sasl.jaas.config={login}.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\";\n\
             {own}scram-sha-256.sasl.jaas.config={login}.scram.ScramLoginModule required;\n\
             {own}scram-sha-512.sasl.jaas.config={login}.scram.ScramLoginModule required;\n",
            self.file("broker.pem").display(),
            MECHANISMS.join(",")
        )
    }

    /// Passwords that the broker keeps itself.
    pub(super) fn words_for_format(&self) -> Vec<String> {
        let scram = MECHANISMS.iter().filter(|mechanism| mechanism.starts_with("SCRAM"));
        scram.flat_map(|mechanism| ["--add-scram".to_owned(), format!("{mechanism}=[name={USER},password={PASSWORD}]")]).collect()
    }
}

impl Default for Security {
    fn default() -> Self {
        Self::new()
    }
}

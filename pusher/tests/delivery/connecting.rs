//! Everything that can go wrong before a request is sent, each with a reason of its own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::event::Outcome;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use socket2::{Domain, Socket, Type};
use tokio_rustls::TlsAcceptor;

use super::bench::{Bench, NoDeadLetters, event, group};
use super::receiver::{Reading, Receiver, Step, ok};
use pusher::delivery::Tls;

fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Listens, with a backlog that is full, so that further connections hang.
struct BlackHole {
    address: SocketAddr,
    _listener: Socket,
    _waiting: Vec<Socket>,
}

impl BlackHole {
    fn dig() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let knock = |_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _in_progress = socket.connect(&address.into());
            socket
        };
        let waiting: Vec<Socket> = (0..8).map(knock).collect();
        while TcpStream::connect_timeout(&address, Duration::from_millis(50)).is_ok() {}
        Self { address, _listener: listener, _waiting: waiting }
    }
}

#[tokio::test]
async fn a_refused_port_and_an_unknown_name_have_reasons_of_their_own() {
    let bench = Bench::to(&format!("http://{}/", closed_port()));
    let failure = bench.failure(&event("v")).await;
    assert_eq!((failure.reason, failure.code), ("refused", None));
    assert_eq!(bench.metric(r#"attempts_total{group="g",outcome="refused"}"#), 1);
    let failure = Bench::to("http://no..such.host/").failure(&event("v")).await;
    assert_eq!(failure.reason, "dns");
    assert!(failure.detail.contains("no..such.host"), "{failure:?}");
}

#[tokio::test]
async fn connect_timeout_is_apart_from_timeout() {
    let hole = BlackHole::dig();
    let mut group = group(&format!("http://{}/", hole.address));
    group.connect_timeout = Duration::from_millis(300);
    let began = Instant::now();
    assert_eq!(Bench::new(&group).failure(&event("v")).await.reason, "connect_timeout");
    let took = began.elapsed();
    assert!((300..630).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test]
async fn a_connection_that_hangs_is_named_even_if_both_timeouts_are_the_same() {
    let hole = BlackHole::dig();
    let mut group = group(&format!("http://{}/", hole.address));
    (group.timeout, group.connect_timeout) = (Duration::from_millis(200), Duration::from_millis(200));
    assert_eq!(Bench::new(&group).failure(&event("v")).await.reason, "connect_timeout");
}

#[tokio::test]
async fn a_metadata_address_is_never_called() {
    for url in ["http://169.254.169.254/latest", "http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/"] {
        assert_eq!(Bench::to(url).failure(&event("v")).await.reason, "forbidden_address");
    }
}

/// A certificate authority that the group under test trusts.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    fn certify(&self, names: &[&str], change: impl Fn(&mut CertificateParams)) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let certificate = params(names, change).signed_by(&key, &self.issuer).unwrap();
        acceptor(certificate.der().clone(), &key)
    }

    async fn outcome(&self, server: TlsAcceptor) -> (Outcome, usize) {
        let receiver = Receiver::with(Reading::WholeRequests, Some(server), |_| vec![ok()]).await;
        let url = format!("https://localhost:{}/cb", receiver.address.port());
        let outcome = self.bench(&url).process(&event("v")).await;
        (outcome, receiver.requests().len())
    }

    fn bench(&self, url: &str) -> Bench {
        Bench::with(&group(url), Arc::new(NoDeadLetters), &Tls::trusting([self.certificate.clone()]).unwrap())
    }
}

fn params(names: &[&str], change: impl Fn(&mut CertificateParams)) -> CertificateParams {
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    change(&mut params);
    params
}

fn acceptor(certificate: CertificateDer<'static>, key: &KeyPair) -> TlsAcceptor {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsAcceptor::from(Arc::new(builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()))
}

fn reason(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Retry { not_before: None, failure } => failure.reason,
        other => panic!("a failed attempt, not {other:?}"),
    }
}

#[tokio::test]
async fn https_delivers_to_a_receiver_with_a_trusted_certificate() {
    let authority = Authority::new();
    assert_eq!(authority.outcome(authority.certify(&["localhost"], |_| {})).await, (Outcome::Done, 1));
}

#[tokio::test]
async fn each_fault_of_a_certificate_is_named_and_nothing_is_sent() {
    let authority = Authority::new();
    let expired = authority.certify(&["localhost"], |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let wrong_name = authority.certify(&["elsewhere.example"], |_| {});
    let key = KeyPair::generate().unwrap();
    let self_signed = acceptor(params(&["localhost"], |_| {}).self_signed(&key).unwrap().der().clone(), &key);
    let stranger = Authority::new().certify(&["localhost"], |_| {});
    for (server, expected) in
        [(expired, "tls_expired"), (wrong_name, "tls_wrong_name"), (self_signed, "tls_untrusted"), (stranger, "tls_untrusted")]
    {
        let (outcome, requests) = authority.outcome(server).await;
        assert_eq!((reason(&outcome), requests), (expected, 0));
    }
}

#[tokio::test]
async fn plain_http_behind_an_https_url_is_named() {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    });
    let outcome = Authority::new().bench(&url).process(&event("v")).await;
    assert_eq!(reason(&outcome), "tls");
}

#[tokio::test]
async fn a_stale_https_connection_costs_no_attempt() {
    let authority = Authority::new();
    let server = authority.certify(&["localhost"], |_| {});
    let receiver = Receiver::with(Reading::WholeRequests, Some(server), |request| match (request.connection, request.on_connection) {
        (0, 1) => vec![Step::Close],
        _ => vec![ok()],
    })
    .await;
    let bench = authority.bench(&format!("https://localhost:{}/cb", receiver.address.port()));
    assert_eq!(bench.process(&event("1")).await, Outcome::Done);
    assert_eq!(bench.process(&event("2")).await, Outcome::Done);
    assert_eq!(bench.metric(r#"free_retries_total{group="g"}"#), 1);
}

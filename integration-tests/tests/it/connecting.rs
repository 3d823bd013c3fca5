//! Names, addresses and certificates of receivers that are wrong, and then repaired.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use integration_tests::backend::{Backend, Site};
use integration_tests::black_hole::BlackHole;
use integration_tests::gateway::{Gateway, Setup, group};
use integration_tests::names::Names;
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::tls::{Authority, Identity, TlsFront};
use integration_tests::wait;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

const MS: Duration = Duration::from_millis(1);

on_each_backend! {
    a_refused_port_and_a_black_hole_have_reasons_of_their_own_and_are_tried_again,
}

/// Goes on trying, often.
fn stubborn() -> Value {
    json!({"failed_sleep": "100ms", "timeout": "3s", "connect_timeout": "1s"})
}

async fn until_failed(gateway: &Gateway, group: &str, label: &str, times: f64) {
    let labels = [("group", group), ("outcome", label)];
    let what = format!("{times} attempts of {group} that end as {label}");
    wait::until(&what, Duration::from_secs(10), || async {
        (gateway.metric("mqgate_attempts_total", &labels).await >= times).then_some(())
    })
    .await;
}

async fn last_error(gateway: &Gateway, group: &str) -> Value {
    let shown = gateway.group(group).await;
    let partitions = shown["partitions"].as_array().unwrap().clone();
    let error = partitions.iter().map(|p| p["live"]["oldest_unfinished"]["last_error"].clone()).find(|e| !e.is_null());
    error.unwrap_or_else(|| panic!("no last error in {shown}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_name_is_tried_until_it_is_known_and_a_moved_one_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let names = Names::new(dir.path());
    let first = Receiver::ok().await;
    let second = Receiver::start_at(([127, 0, 0, 2], first.addr.port()).into(), |_| Answer::Status(200)).await;
    let url = format!("http://rx.example:{}/callback", first.addr.port());
    let policy = json!({"failed_sleep": "200ms", "connection_max_age": "1s", "idle_timeout": "1s"});
    let mut setup = Setup::groups([group("g", "t", &url, &policy)]);
    setup.wrapper = names.enter();
    let gateway = setup.start().await;
    let producer = Producer::new(gateway.api, "t");
    producer.plain(Some("k"), &[], Bytes::from_static(b"early")).await.unwrap();
    until_failed(&gateway, "g", "dns", 3.0).await;
    let error = last_error(&gateway, "g").await;
    assert!(error["reason"] == "dns" && error["detail"].as_str().unwrap().contains("rx.example"), "the name is said: {error}");
    names.set(&[("127.0.0.1", "rx.example")]);
    first.until_done(1, Duration::from_secs(3)).await;
    // The first receiver goes on accepting; traffic never stops, so the connection is never idle.
    names.set(&[("127.0.0.2", "rx.example")]);
    let moved = Instant::now();
    while second.count() == 0 {
        producer.plain(Some("k"), &[], Bytes::from_static(b"more")).await.unwrap();
        tokio::time::sleep(20 * MS).await;
        assert!(moved.elapsed() < Duration::from_secs(4), "the old address is still called after {:?}", moved.elapsed());
    }
    let (old, at) = (first.count(), moved.elapsed());
    assert!(at <= 2_000 * MS, "a connection of at most 1 s: found after {at:?}");
    for _ in 0..20 {
        producer.plain(Some("k"), &[], Bytes::from_static(b"after")).await.unwrap();
    }
    gateway.until_caught_up("g", Duration::from_secs(3)).await;
    assert_eq!(first.count(), old, "nothing more goes to the old address");
}

async fn a_refused_port_and_a_black_hole_have_reasons_of_their_own_and_are_tried_again(backend: Backend) {
    let mut receiver = Receiver::ok().await;
    receiver.close();
    let hole = BlackHole::dig();
    let url = format!("http://{}/", hole.addr);
    let patient = json!({"timeout": "60s", "connect_timeout": "500ms", "failed_sleep": "100ms", "worker_num": 1});
    let groups = [group("refused", "t", &receiver.url(), &stubborn()), group("hole", "t", &url, &patient)];
    let site = Site::start(backend, Setup::groups(groups)).await;
    site.producer("t").plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
    let posted = Instant::now();
    until_failed(&site.pusher, "refused", "refused", 3.0).await;
    until_failed(&site.pusher, "hole", "connect_timeout", 3.0).await;
    let took = posted.elapsed();
    assert!(took >= 1_690 * MS && took < 4_000 * MS, "three times connect_timeout and two pauses: {took:?}");
    assert_eq!(last_error(&site.pusher, "hole").await["reason"], "connect_timeout");
    assert_eq!(last_error(&site.pusher, "refused").await["reason"], "refused");
    receiver.open().await;
    receiver.until_done(1, Duration::from_secs(3)).await;
    site.pusher.until_caught_up("refused", Duration::from_secs(3)).await;
}

/// A server that takes what a TLS client says for a bad request.
async fn plain_http() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
        }
    });
    addr
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_of_a_certificate_is_named_nothing_is_sent_and_a_good_one_is_served() {
    let (dir, authority, receiver) = (tempfile::tempdir().unwrap(), Authority::new(), Receiver::ok().await);
    let store = dir.path().join("authority.pem");
    authority.write_pem(&store);
    let identities = [
        ("tls_expired", authority.certify("localhost", |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1))),
        ("tls_untrusted", Identity::self_signed("localhost")),
        ("tls_wrong_name", authority.certify("elsewhere.example", |_| {})),
    ];
    let mut fronts = Vec::new();
    let mut groups = Vec::new();
    for (label, identity) in &identities {
        let front = TlsFront::start(identity, receiver.addr).await;
        groups.push(group(label, "t", &format!("https://localhost:{}/{label}", front.addr.port()), &stubborn()));
        fronts.push(front);
    }
    let plain = plain_http().await;
    groups.push(group("tls", "t", &format!("https://localhost:{}/tls", plain.port()), &stubborn()));
    let good = TlsFront::start(&authority.certify("localhost", |_| {}), receiver.addr).await;
    groups.push(group("good", "t", &format!("https://localhost:{}/good", good.addr.port()), &stubborn()));
    let mut setup = Setup::groups(groups);
    setup.environment = vec![("SSL_CERT_FILE".into(), store.to_str().unwrap().into())];
    let gateway = setup.start().await;
    let producer = Producer::new(gateway.api, "t");
    for n in 0..20 {
        producer.plain(Some(&format!("k{n}")), &[], Bytes::from(format!("{n}"))).await.unwrap();
    }
    receiver.until_done(20, Duration::from_secs(5)).await;
    gateway.until_caught_up("good", Duration::from_secs(3)).await;
    for label in ["tls_expired", "tls_untrusted", "tls_wrong_name", "tls"] {
        until_failed(&gateway, label, label, 25.0).await;
        assert_eq!(last_error(&gateway, label).await["reason"], label);
        assert_eq!(gateway.metric("mqgate_delivered_total", &[("group", label)]).await, 0.0);
    }
    let seen = receiver.seen();
    assert!(seen.iter().all(|s| s.target == "/good"), "never without verification");
    assert_eq!(seen.len(), 20);
}

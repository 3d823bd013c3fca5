//! Clients that say nothing, dribble, or go away.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, future, stream};
use integration_tests::gateway::{Setup, group};
use integration_tests::producer::Producer;
use integration_tests::raw::{self, Connection};
use integration_tests::receiver::Receiver;
use integration_tests::shim::Syncs;
use integration_tests::wait;
use serde_json::json;
use tokio::io::AsyncWriteExt;

const MS: Duration = Duration::from_millis(1);
const HEAD: Duration = Duration::from_millis(1_500);
const BODY: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_millis(2_500);
/// Hundreds of sockets on a busy machine: how much later than asked a close may be seen.
const SLACK: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Slow {
    Silent,
    DribblesItsHead,
    DribblesItsBody,
    IdleAfterARequest,
}

impl Slow {
    const ALL: [(Self, usize); 4] =
        [(Self::Silent, 300), (Self::DribblesItsHead, 300), (Self::DribblesItsBody, 100), (Self::IdleAfterARequest, 100)];

    /// Within what it is closed, and what it is told.
    fn limit(self) -> (Duration, Option<u16>) {
        match self {
            Self::Silent | Self::IdleAfterARequest => (IDLE, None),
            Self::DribblesItsHead => (HEAD, Some(408)),
            Self::DribblesItsBody => (BODY, Some(408)),
        }
    }

    fn opening(self) -> &'static str {
        match self {
            Self::Silent => "",
            Self::DribblesItsHead => "P",
            Self::DribblesItsBody => "POST /topics/t HTTP/1.1\r\nHost: gw\r\nContent-Length: 1000\r\n\r\n",
            Self::IdleAfterARequest => "POST /topics/t HTTP/1.1\r\nHost: gw\r\nContent-Length: 2\r\n\r\nhi",
        }
    }

    /// Returns after how long it was closed, and the status it was told.
    async fn wait(self, addr: std::net::SocketAddr) -> (Duration, Option<u16>) {
        let mut connection = Connection::open(addr).await;
        connection.send(self.opening()).await;
        if self == Self::IdleAfterARequest {
            assert_eq!(connection.reply(Duration::from_secs(5)).await.expect("an answer").status, 200);
        }
        let started = Instant::now();
        let (read, mut write) = connection.stream.into_split();
        let dribble = async {
            loop {
                tokio::time::sleep(400 * MS).await;
                let more = matches!(self, Self::DribblesItsHead | Self::DribblesItsBody);
                if more && write.write_all(b"O").await.is_err() {
                    return future::pending().await;
                }
            }
        };
        let end = async {
            let (mut read, mut said) = (read, Vec::new());
            let _ = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut said).await;
            (started.elapsed(), raw::status(&String::from_utf8_lossy(&said)))
        };
        tokio::select! { seen = end => seen, () = dribble => unreachable!("it dribbles for ever") }
    }
}

/// A normal client's latencies at 50 requests a second, until `end`.
async fn normal_client(producer: Producer, end: Instant) -> Vec<Duration> {
    let mut every = tokio::time::interval(20 * MS);
    let mut took = Vec::new();
    while Instant::now() < end {
        every.tick().await;
        let started = Instant::now();
        producer.plain(Some("k"), &[], Bytes::from_static(b"fine")).await.expect("a normal client is always served");
        took.push(started.elapsed());
    }
    took.sort();
    took
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() * 99 / 100 - 1]
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_slow_clients_are_closed_in_time_and_a_normal_one_does_not_notice() {
    let setup = Setup::default().proxy("head_timeout", json!("1500ms")).proxy("body_timeout", json!("2s"));
    let gateway = setup.proxy("idle_timeout", json!("2500ms")).start().await;
    let producer = Producer::new(gateway.api, "t");
    producer.plain(None, &[], Bytes::from_static(b"first")).await.unwrap();
    let alone = normal_client(producer.clone(), Instant::now() + 1_000 * MS).await;
    tokio::time::sleep(IDLE + 500 * MS).await;
    let base = gateway.open_files();
    let normal = tokio::spawn(normal_client(producer.clone(), Instant::now() + 4_500 * MS));
    let all = Slow::ALL.into_iter().flat_map(|(kind, n)| std::iter::repeat_n(kind, n));
    let ends = future::join_all(all.map(|kind| async move { (kind, tokio::spawn(kind.wait(gateway.api)).await.unwrap()) }));
    let most = async {
        tokio::time::sleep(700 * MS).await;
        gateway.open_files()
    };
    let (ends, most) = future::join(ends, most).await;
    assert!(most >= base + 600, "they were really there: {most} open files, {base} before");
    for (kind, (took, status)) in ends {
        let (limit, expected) = kind.limit();
        assert_eq!(status, expected, "{kind:?}");
        assert!(took + 5 * MS >= limit.saturating_sub(100 * MS), "{kind:?}: closed after {took:?}, too early");
        assert!(took <= limit.mul_f64(1.1) + SLACK, "{kind:?}: closed after {took:?}");
    }
    let beside = normal.await.unwrap();
    // On a machine that is busy with other things the client alone is slow too.
    let bound = (100 * MS).max(3 * p99(&alone));
    assert!(p99(&beside) < bound, "p99 {:?} beside slow clients, {:?} alone", p99(&beside), p99(&alone));
    drop(producer);
    wait::until("as many open files as before", IDLE + SLACK, || async { (gateway.open_files() <= base + 1).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_go_away_leak_nothing_and_their_messages_are_there_once_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let (syncs, receiver) = (Syncs::new(dir.path()), Receiver::ok().await);
    let mut setup = Setup::groups([group("g", "t", &receiver.url(), &json!({"worker_num": 64}))]);
    setup = setup.proxy("max_in_flight_requests", json!(600));
    setup.environment = syncs.environment();
    let gateway = setup.start().await;
    let producer = Producer::new(gateway.api, "t");
    producer.plain(None, &[], Bytes::from_static(b"first")).await.unwrap();
    let resident = gateway.resident_bytes();
    syncs.delay(Duration::from_secs(1));
    let leave = |n: usize| async move {
        let mut connection = Connection::open(gateway.api).await;
        let body = format!("gone {n}");
        connection.send(format!("POST /topics/t HTTP/1.1\r\nHost: gw\r\nContent-Length: {}\r\n\r\n{body}", body.len())).await;
        tokio::time::sleep(10 * MS).await;
        if n.is_multiple_of(2) {
            socket2::SockRef::from(&connection.stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    };
    stream::iter(0..500).for_each_concurrent(100, leave).await;
    let in_flight = || gateway.metric("mqgate_produce_in_flight", &[]);
    assert!(in_flight().await > 0.0, "some are held by the slow disk");
    syncs.obey_the_disk();
    wait::until("nothing in flight", Duration::from_secs(5), || async { (in_flight().await == 0.0).then_some(()) }).await;
    let started = Instant::now();
    let normal = stream::iter(0..200).map(|n| {
        let producer = producer.clone();
        async move { producer.plain(None, &[], Bytes::from(format!("normal {n}"))).await }
    });
    let normal: Vec<_> = normal.buffer_unordered(50).collect().await;
    assert!(normal.iter().all(Result::is_ok), "no permit was lost: {:?}", normal.iter().find(|r| r.is_err()));
    assert!(started.elapsed() < Duration::from_secs(3), "200 requests took {:?}", started.elapsed());
    assert_eq!(in_flight().await, 0.0);
    gateway.until_caught_up("g", Duration::from_secs(10)).await;
    let mut times: HashMap<Vec<u8>, usize> = HashMap::new();
    for record in gateway.stored("t").await {
        *times.entry(record.value.expect("no tombstones")).or_default() += 1;
    }
    let twice = times.iter().find(|(_, n)| **n > 1);
    assert!(twice.is_none(), "written more than once: {twice:?}");
    assert_eq!(times.keys().filter(|v| v.starts_with(b"normal")).count(), 200);
    assert!(times.keys().all(|v| v == b"first" || v.starts_with(b"normal ") || v.starts_with(b"gone ")), "nothing half written");
    let grown = gateway.resident_bytes().saturating_sub(resident);
    assert!(grown < 32 << 20, "{} MiB more", grown >> 20);
}

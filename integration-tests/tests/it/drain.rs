//! SIGTERM, SIGINT and SIGHUP.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use integration_tests::backend::{Backend, Site};
use integration_tests::gateway::{Setup, group};
use integration_tests::ledger::judge;
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::{raw, wait};
use rustix::process::Signal;
use serde_json::json;

on_each_backend! {
    sigterm_under_load_exits_0_loses_nothing_and_repeats_nothing,
    hanging_receivers_are_cut_at_the_drain_deadline_and_count_as_nothing,
}

async fn sigterm_under_load_exits_0_loses_nothing_and_repeats_nothing(backend: Backend) {
    let receiver = Receiver::start(|_| Answer::Status(200).after(Duration::from_millis(30))).await;
    let setup = Setup::groups([group("g", "t", &receiver.url(), &json!({"worker_num": 64, "commit_interval": "10s"}))]);
    let mut site = Site::start(backend, setup).await;
    let producer = site.producer("t");
    let clients = tokio::spawn({
        let producer = producer.clone();
        async move {
            let each = stream::iter(0..32).map(|client| {
                let producer = producer.clone();
                async move {
                    let (mut acked, mut refused) = (Vec::new(), Vec::new());
                    for n in 0..10_000 {
                        match producer.plain(Some(&format!("{client}.{}", n % 7)), &[], Bytes::from(n.to_string())).await {
                            Ok(message) => acked.push(message),
                            Err(no) => {
                                refused.push(no);
                                break;
                            }
                        }
                    }
                    (acked, refused)
                }
            });
            each.buffer_unordered(32).collect::<Vec<_>>().await
        }
    });
    receiver.until_done(1_000, Duration::from_secs(10)).await;
    let asked = Instant::now();
    site.terminate(Duration::from_secs(10)).await;
    let (acked, refused): (Vec<_>, Vec<_>) = clients.await.unwrap().into_iter().unzip();
    let (acked, refused) = (acked.concat(), refused.into_iter().flatten().collect::<Vec<_>>());
    assert!(refused.iter().all(|r| matches!(r.status, None | Some(503))), "{refused:?}");
    let late = receiver.seen().iter().filter(|s| s.at > asked + Duration::from_millis(150)).count();
    assert_eq!(late, 0, "attempts that began after SIGTERM");
    site.pusher.restart().await;
    site.pusher.until_caught_up("g", Duration::from_secs(30)).await;
    let verdict = judge(&acked, &receiver.seen());
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.repeats, 0, "what was answered before the exit is not repeated");
}

async fn hanging_receivers_are_cut_at_the_drain_deadline_and_count_as_nothing(backend: Backend) {
    let receiver = Receiver::start(|s| if s.text() == "hang" { Answer::Hang } else { Answer::Status(200) }).await;
    let policy = json!({"timeout": "60s", "connect_timeout": "1s", "bypass_failed": true});
    let setup = Setup::groups([group("g", "t", &receiver.url(), &policy)]).pusher("drain_timeout", json!("1s"));
    let mut site = Site::start(backend, setup).await;
    let producer = site.producer("t");
    for n in 0..20 {
        let body: &'static [u8] = if n % 7 == 0 { b"hang" } else { b"fine" };
        producer.plain(Some(&format!("k{n}")), &[], Bytes::from_static(body)).await.unwrap();
    }
    receiver.until_done(17, Duration::from_secs(5)).await;
    let asked = Instant::now();
    let status = site.pusher.terminate(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0), "{}", site.pusher.log());
    wait::assert_on_time("the drain", asked.elapsed(), Duration::from_secs(1));
    receiver.clear();
    receiver.script(|_| Answer::Status(200));
    site.pusher.restart().await;
    site.pusher.until_caught_up("g", Duration::from_secs(5)).await;
    let again: Vec<String> = receiver.seen().iter().map(|s| s.text().to_owned()).collect();
    assert_eq!(again, ["hang", "hang", "hang"], "cut is neither done nor given up, and nothing else is repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_in_backoff_survive_a_stop_without_being_given_up() {
    let receiver = Receiver::start(|_| Answer::Status(500).after(Duration::from_millis(50))).await;
    let policy = json!({"retry_times": 1_000, "retry_backoff": {"initial": "1s", "max": "5s"}, "bypass_failed": true, "worker_num": 5});
    let mut gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).start().await;
    let producer = Producer::new(gateway.api, "t");
    for n in 0..20 {
        producer.plain(Some(&format!("k{n}")), &[], Bytes::from(n.to_string())).await.unwrap();
    }
    receiver.until_count(10, Duration::from_secs(5)).await;
    assert_eq!(gateway.terminate(Duration::from_secs(5)).await.code(), Some(0));
    receiver.script(|_| Answer::Status(200));
    gateway.restart().await;
    receiver.until_done(20, Duration::from_secs(10)).await;
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
    assert_eq!(gateway.metric("mqgate_bypassed_total", &[]).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_sigterm_stops_at_once() {
    let receiver = Receiver::start(|_| Answer::Hang).await;
    let policy = json!({"timeout": "60s", "connect_timeout": "1s"});
    let mut gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).start().await;
    Producer::new(gateway.api, "t").plain(None, &[], Bytes::from_static(b"x")).await.unwrap();
    receiver.until_count(1, Duration::from_secs(5)).await;
    gateway.signal(Signal::TERM);
    gateway.until_missing("draining", Duration::from_secs(5)).await;
    assert!(gateway.runs(), "it waits for the open attempt");
    gateway.signal(Signal::INT);
    let status = gateway.exit(Duration::from_secs(1)).await;
    assert_ne!(status.code(), Some(0), "a stop that was forced is not a clean one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_is_answered_while_draining() {
    let receiver = Receiver::ok().await;
    let mut gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({}))]).start().await;
    let mut stream = tokio::net::TcpStream::connect(gateway.api).await.unwrap();
    let write = async |stream: &mut tokio::net::TcpStream, bytes: &[u8]| tokio::io::AsyncWriteExt::write_all(stream, bytes).await.unwrap();
    write(&mut stream, b"POST /topics/t HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\n\r\nhel").await;
    gateway.until_metric("mqgate_produce_in_flight", &[], 1.0, Duration::from_secs(5)).await;
    gateway.signal(Signal::TERM);
    gateway.until_missing("draining", Duration::from_secs(5)).await;
    write(&mut stream, b"lo").await;
    let answer = raw::read_answer(&mut stream).await;
    assert_eq!(raw::status(&answer), Some(200), "{answer}");
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    assert_eq!(gateway.exit(Duration::from_secs(5)).await.code(), Some(0));
    receiver.clear();
    gateway.restart().await;
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
    assert!(receiver.count() <= 1);
}

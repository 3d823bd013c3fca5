//! Bounds on time, on work and on what is counted.

use std::time::{Duration, Instant};

use common::ids::{Partition, Topic};
use common::queue::{NotWritten, ProduceError};
use futures_util::future::join_all;

use crate::client::{Client, exchange, post};
use crate::gateway::{config, running, running_with};

fn assert_lasted(began: Instant, limit: Duration) {
    let lasted = began.elapsed();
    assert!(lasted >= limit && lasted <= limit + limit / 10 + Duration::from_millis(300), "{lasted:?} for {limit:?}");
}

/// C14, shortened: each kind of slow client is gone within its limit, and nobody else notices.
#[tokio::test]
async fn slow_clients_are_closed_and_the_others_served() {
    let (gateway, limits) = (running().await, config());
    let began = Instant::now();
    let silent = join_all((0..50).map(|_| async {
        let mut client = Client::connect(gateway.address).await;
        assert!(client.is_closed_silently().await);
        assert_lasted(began, limits.idle_timeout);
    }));
    let half_a_head = join_all((0..50).map(|_| async {
        let mut client = Client::connect(gateway.address).await;
        client.send(b"POST /topics/t1 HT").await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.body.len()), (408, 0));
        assert_lasted(began, limits.head_timeout);
    }));
    let slow_body = join_all((0..50).map(|_| async {
        let mut client = Client::connect(gateway.address).await;
        client.send(b"POST /topics/t1 HTTP/1.1\r\nHost: gw\r\nContent-Length: 9\r\n\r\n").await;
        for _ in 0..4 {
            client.send(b"x").await;
            tokio::time::sleep(limits.body_timeout / 5).await;
        }
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.code()), (408, "body_timeout".to_owned()));
        assert!(client.is_closed_silently().await);
        assert_lasted(began, limits.body_timeout);
    }));
    let normal = async {
        let mut client = Client::connect(gateway.address).await;
        for _ in 0..50 {
            let asked = Instant::now();
            client.send(&post("/topics/t1", "", b"v")).await;
            assert_eq!(client.answer().await.status, 200);
            assert!(asked.elapsed() < Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::join!(silent, half_a_head, slow_body, normal);
    assert_eq!(gateway.metric("mqgate_aborted_uploads_total", &[]), 50.0);
    assert_eq!(gateway.end("t1", 0).await, 50);
}

#[tokio::test]
async fn requests_over_the_bound_are_refused_at_once_and_those_under_it_are_not() {
    let gateway = running_with(common::config::ProxyConfig { max_in_flight_requests: 3, ..config() }).await;
    gateway.gate.close();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(gateway.address).await;
        client.send(&post("/topics/t1", "", b"v")).await;
        waiting.push(client);
    }
    gateway.eventually("three are in", async |g| g.metric("mqgate_produce_in_flight", &[]) == 3.0).await;
    let began = Instant::now();
    let answer = gateway.post("/topics/t1", "", b"v").await;
    assert_eq!((answer.status, answer.code()), (503, "too_many_in_flight".to_owned()));
    assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    assert!(began.elapsed() < Duration::from_millis(200));
    gateway.gate.open();
    for mut client in waiting {
        assert_eq!(client.answer().await.status, 200);
    }
    assert_eq!(gateway.post("/topics/t1", "", b"v").await.status, 200);
}

#[tokio::test]
async fn bytes_over_the_bound_are_refused_with_or_without_a_length() {
    let gateway = running_with(common::config::ProxyConfig { max_in_flight_bytes: 100_000, ..config() }).await;
    gateway.gate.close();
    let mut first = Client::connect(gateway.address).await;
    first.send(&post("/topics/t1", "", &vec![b'x'; 60_000])).await;
    gateway.eventually("the first is written", async |g| g.end("t1", 0).await == 1).await;
    let body = vec![b'x'; 50_000];
    let chunked =
        [b"POST /topics/t1 HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\nc350\r\n".as_slice(), &body, b"\r\n0\r\n\r\n"];
    for request in [post("/topics/t1", "", &body), chunked.concat()] {
        let answer = exchange(gateway.address, &request).await;
        assert_eq!((answer.status, answer.code()), (503, "too_many_in_flight".to_owned()));
    }
    gateway.gate.open();
    assert_eq!(first.answer().await.status, 200);
    assert_eq!(gateway.post("/topics/t1", "", &body).await.status, 200);
}

/// C17: half of the clients say FIN, half reset; what they sent is written, once, and counted.
#[tokio::test]
async fn clients_that_go_away_leak_nothing() {
    let gateway = running_with(common::config::ProxyConfig { max_in_flight_requests: 300, ..config() }).await;
    gateway.gate.close();
    let mut clients = Vec::new();
    for i in 0..300 {
        let mut client = Client::connect(gateway.address).await;
        client.send(&post("/topics/t1", "", i.to_string().as_bytes())).await;
        clients.push(client);
    }
    gateway.eventually("all are in", async |g| g.metric("mqgate_produce_in_flight", &[]) == 300.0).await;
    for (i, client) in clients.into_iter().enumerate() {
        if i % 2 == 0 { drop(client) } else { client.reset() }
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(gateway.post("/topics/t1", "", b"v").await.status, 503, "their places are held as long as their messages");
    gateway.gate.open();
    gateway.eventually("every place is free", async |g| g.metric("mqgate_produce_in_flight", &[]) == 0.0).await;
    assert_eq!(gateway.metric("mqgate_produce_records_total", &["written"]), 300.0);
    assert_eq!(gateway.metric("mqgate_produce_requests_total", &["plain", "\"200\""]), 300.0);
    let mut values: Vec<u32> = gateway.values("t1").await.iter().map(|v| std::str::from_utf8(v).unwrap().parse().unwrap()).collect();
    values.sort_unstable();
    assert_eq!(values, (0..300).collect::<Vec<_>>());
    for answer in join_all((0..200).map(|_| gateway.post("/topics/t1", "", b"v"))).await {
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn without_an_acknowledgement_in_time_nobody_says_it_was_written() {
    let produce_timeout = Duration::from_millis(300);
    let gateway = running_with(common::config::ProxyConfig { produce_timeout, ..config() }).await;
    gateway.gate.close();
    let began = Instant::now();
    let answer = gateway.post("/topics/t1", "", b"v").await;
    assert_eq!((answer.status, answer.code()), (504, "no_acknowledgement".to_owned()));
    assert!(answer.detail().contains("Idempotency-Key"));
    assert_lasted(began, produce_timeout);
    assert_eq!(gateway.metric("mqgate_produce_in_flight", &[]), 1.0, "the queue still holds it");
    gateway.gate.open();
    gateway.eventually("its place is free", async |g| g.metric("mqgate_produce_in_flight", &[]) == 0.0).await;
    assert_eq!(gateway.metric("mqgate_produce_records_total", &["unknown"]), 1.0);
}

#[tokio::test]
async fn what_the_queue_says_has_its_status() {
    let gateway = running().await;
    let topic = Topic::new("t1").unwrap();
    let not_written = |why| ProduceError::NotWritten(why, "why".into());
    for (error, status, code) in [
        (ProduceError::UnknownTopic(topic.clone()), 404, "unknown_topic"),
        (ProduceError::UnknownPartition { topic, partition: Partition(9), partitions: 1 }, 404, "unknown_partition"),
        (ProduceError::TooLarge { size: 2, limit: 1 }, 413, "too_large"),
        (ProduceError::RecordRefused("no key".into()), 422, "record_refused"),
        (not_written(NotWritten::Unavailable), 503, "unavailable"),
        (not_written(NotWritten::LocalQueueFull), 503, "local_queue_full"),
        (not_written(NotWritten::TooManyTopics), 503, "too_many_topics"),
        (not_written(NotWritten::DiskFull), 503, "disk_full"),
        (not_written(NotWritten::StorageFailed), 503, "storage_failed"),
        (not_written(NotWritten::ShuttingDown), 503, "shutting_down"),
        (ProduceError::MaybeWritten("cut".into()), 504, "no_acknowledgement"),
    ] {
        gateway.gate.refuse(Some(error));
        let answer = gateway.post("/topics/t1", "", b"v").await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
        assert_eq!(answer.json()["retriable"], status >= 500);
        assert_eq!(answer.header("retry-after").is_some(), status == 503);
    }
}

/// C74
#[tokio::test]
async fn no_client_can_make_a_series() {
    let gateway = running().await;
    let before = gateway.scrape().lines().count();
    let mut client = Client::connect(gateway.address).await;
    for i in 0..300 {
        client.send(&post(&format!("/topics/x-{i}"), &format!("Content-Type: a/{i}\r\n"), b"v")).await;
        assert_eq!(client.answer().await.status, 404);
        client.send(format!("M{i} /p/{i} HTTP/1.1\r\nHost: gw{i}\r\n\r\n").as_bytes()).await;
        assert_eq!(client.answer().await.status, 404);
        client.send(&post(&format!("/topics/t6?key=k{i}"), "", b"v")).await;
        assert_eq!(client.answer().await.status, 200);
    }
    assert_eq!(gateway.scrape().lines().count(), before);
    assert_eq!(gateway.metric("mqgate_produce_requests_total", &["plain", "\"404\""]), 300.0);
    assert_eq!(gateway.metric("mqgate_produce_requests_total", &["none", "\"404\""]), 300.0);
    assert_eq!(gateway.metric("mqgate_produce_duration_seconds_count", &[]), 600.0);
}

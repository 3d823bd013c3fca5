//! The main job: POST a message in, get it pushed out, nothing lost.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use integration_tests::gateway::{Setup, group};
use integration_tests::ledger::{Acked, judge};
use integration_tests::payloads::sample;
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::{raw, wait};
use serde_json::json;

/// Messages of one key must be POSTed one after the other, so one producer owns one key range.
async fn post_all(producer: &Producer, count: usize) -> Vec<Acked> {
    let lanes = stream::iter(0..3).map(|dialect| {
        let producer = producer.clone();
        async move {
            let mine: Vec<_> =
                (0..count).filter(|n| n % 3 == dialect).map(|n| sample(n / 3, 7)).map(|s| (format!("{dialect}.{}", s.key), s)).collect();
            let mut acked = Vec::with_capacity(mine.len());
            match dialect {
                0 => {
                    for (key, sample) in mine {
                        let headers = [("Content-Type", "application/json"), ("X-Kmq-Header-ce_type", sample.event.as_str())];
                        acked.push(producer.plain(Some(&key), &headers, sample.body).await.unwrap());
                    }
                }
                1 => {
                    for (key, sample) in mine {
                        acked.push(producer.original(&key, sample.body).await.unwrap());
                    }
                }
                _ => {
                    for chunk in mine.chunks(200) {
                        let lines: Vec<(String, Bytes)> = chunk.iter().map(|(k, s)| (k.clone(), s.body.clone())).collect();
                        acked.extend(producer.batch(&lines, &json!({"content-type": "application/json"})).await);
                    }
                }
            }
            acked
        }
    });
    lanes.buffer_unordered(3).concat().await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_real_payloads_arrive_once_in_key_order_byte_for_byte() {
    let receiver = Receiver::ok().await;
    let gateway = Setup::groups([group("all", "github", &receiver.url(), &json!({"worker_num": 64}))]).start().await;
    let acked = post_all(&Producer::new(gateway.api, "github"), 10_000).await;
    assert_eq!(acked.len(), 10_000);
    let seen = receiver.until_done(10_000, Duration::from_secs(40)).await;
    gateway.until_caught_up("all", Duration::from_secs(5)).await;
    let verdict = judge(&acked, &seen);
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!((verdict.delivered, verdict.repeats, receiver.count()), (10_000, 0, 10_000));
    let partitions: std::collections::BTreeSet<u32> = acked.iter().map(|a| a.partition).collect();
    assert!(partitions.len() > 1, "keys spread over partitions");
    assert!(gateway.metric("mqgate_delivered_total", &[("group", "all")]).await >= 10_000.0);
    assert!(gateway.metric("mqgate_lag_records", &[("group", "all")]).await == 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_message_of_a_new_topic_is_pushed_at_once_with_its_headers() {
    let receiver = Receiver::ok().await;
    let newest = json!({"initial_from_oldest": false});
    let gateway = Setup::groups([group("g", "orders", &receiver.url(), &newest)]).start().await;
    let producer = Producer::new(gateway.api, "orders");
    let headers = [
        ("Content-Type", "text/plain"),
        ("X-Kmq-Logid", "log-7"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("Idempotency-Key", "order:42"),
    ];
    let acked = producer.plain(Some("k 1"), &headers, Bytes::from_static(b" hello ")).await.unwrap();
    let seen = receiver.until_count(1, Duration::from_secs(1)).await.remove(0);
    assert_eq!((seen.method.as_str(), seen.target.as_str(), &seen.body[..]), ("POST", "/callback", &b" hello "[..]));
    assert_eq!((seen.topic(), seen.partition(), seen.offset(), seen.attempt()), ("orders", acked.partition, acked.offset, 0));
    assert_eq!((seen.key(), seen.id()), (Some("k 1"), "order:42"));
    for (name, value) in [("X-Kmq-Logid", "log-7"), ("Content-Type", "text/plain"), ("Content-Length", "7"), ("Traceparent", headers[2].1)]
    {
        assert!(seen.headers.iter().any(|(n, v)| n == name && v == value), "{name}: {value} in {:?}", seen.headers);
    }
    let names: Vec<&str> = seen.headers.iter().map(|(n, _)| n.as_str()).collect();
    for name in ["User-Agent", "X-Kmq-Topic", "X-Kmq-Timestamp", "X-Retry-Times", "Webhook-Id", "Webhook-Timestamp", "X-Kmq-Epoch", "Host"]
    {
        assert!(names.iter().any(|n| n.eq_ignore_ascii_case(name)), "{name} in {names:?}");
    }
    assert!(!names.contains(&"Transfer-Encoding"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_receiver_hangs_leaves_the_other_its_rate() {
    let hanging = Receiver::start(|_| Answer::Hang).await;
    let healthy = Receiver::start(|_| Answer::Status(200).after(Duration::from_millis(5))).await;
    let slow = json!({"timeout": "30s", "connect_timeout": "1s"});
    let gateway = Setup::groups([
        group("alone", "a", &healthy.url(), &json!({})),
        group("healthy", "b", &healthy.url(), &json!({})),
        group("hanging", "b", &hanging.url(), &slow),
    ])
    .start()
    .await;
    let rate = async |topic: &'static str| {
        healthy.clear();
        let producer = Producer::new(gateway.api, topic);
        let started = std::time::Instant::now();
        for chunk in (0..6_000).collect::<Vec<usize>>().chunks(1_000) {
            let lines: Vec<(String, Bytes)> = chunk.iter().map(|n| (format!("k{}", n % 500), Bytes::from(vec![b'x'; 1024]))).collect();
            producer.batch(&lines, &json!({})).await;
        }
        healthy.until_done(6_000, Duration::from_secs(30)).await;
        6_000.0 / started.elapsed().as_secs_f64()
    };
    let alone = rate("a").await;
    let beside = rate("b").await;
    assert!(beside >= 0.8 * alone, "{beside:.0}/s beside a hanging receiver, {alone:.0}/s alone");
    assert!(hanging.count() <= 16, "the hanging group uses its own slots only, not {}", hanging.count());
    assert_eq!(gateway.metric("mqgate_delivered_total", &[("group", "hanging")]).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_empty_and_literal_keys_are_three_things() {
    let receiver = Receiver::start(|_| Answer::Status(200).after(Duration::from_millis(2))).await;
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({}))]).embedded("partitions", json!(6)).start().await;
    let producer = Producer::new(gateway.api, "t");
    let mut acked = Vec::new();
    for n in 0..60 {
        for key in [None, Some(""), Some("null")] {
            acked.push(producer.plain(key, &[], Bytes::from(format!("{n}"))).await.unwrap());
        }
    }
    let seen = receiver.until_done(180, Duration::from_secs(20)).await;
    let verdict = judge(&acked, &seen);
    verdict.assert_nothing_lost_or_reordered();
    let partitions = |key: Option<&str>| {
        acked.iter().filter(|a| a.key.as_deref() == key).map(|a| a.partition).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(partitions(None) > 1, "records without a key spread");
    assert_eq!((partitions(Some("")), partitions(Some("null"))), (1, 1));
    let count = |key: Option<&str>| seen.iter().filter(|s| s.key() == key).count();
    assert_eq!((count(None), count(Some("")), count(Some("null"))), (60, 60, 60));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tombstone_is_pushed_as_one_and_holds_nothing_up() {
    let receiver = Receiver::ok().await;
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({}))]).start().await;
    let lines = "{\"key\":\"k1\",\"value\":\"a\"}\n{\"key\":\"k1\",\"value\":null}\n{\"key\":\"k1\",\"value\":\"\"}\n{\"key\":\"k1\",\"value\":\"b\"}\n";
    let url = gateway.topic_url("t/batch");
    let answer =
        Producer::new(gateway.api, "t").http.post(url).header("Content-Type", "application/x-ndjson").body(lines).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let seen = receiver.until_done(4, Duration::from_secs(5)).await;
    let got: Vec<(&str, bool)> = seen.iter().map(|s| (s.text(), s.header("X-Kmq-Tombstone").is_some())).collect();
    assert_eq!(got, [("a", false), ("", true), ("", false), ("b", false)]);
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_carried_not_interpreted() {
    let receiver = Receiver::ok().await;
    let gateway =
        Setup::groups([group("g", "t", &receiver.url(), &json!({"order": "partition"}))]).embedded("partitions", json!(1)).start().await;
    let producer = Producer::new(gateway.api, "t");
    let bodies: [&[u8]; 8] = [
        b"YWJjZA==",
        b"this is a test",
        b"{ \"b\" :1,\n \"a\":1.0, \"u\":\"\\u00e9\\/\" }",
        b"\"quoted\"",
        b"null",
        b" \r\n lead and trail \r\n",
        b"{\"status\":400,\"status\":200}",
        b"\x00\xff\xfe",
    ];
    let mut acked = Vec::new();
    for body in bodies {
        acked.push(producer.plain(Some("k"), &[], Bytes::copy_from_slice(body)).await.unwrap());
        acked.push(producer.original("k", Bytes::copy_from_slice(body)).await.unwrap());
    }
    let seen = receiver.until_done(16, Duration::from_secs(10)).await;
    judge(&acked, &seen).assert_nothing_lost_or_reordered();
    let pushed: Vec<&[u8]> = seen.iter().map(|s| &s.body[..]).collect();
    let sent: Vec<&[u8]> = bodies.iter().flat_map(|b| [*b, *b]).collect();
    assert_eq!(pushed, sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_cannot_make_metric_series() {
    let receiver = Receiver::ok().await;
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({}))]).embedded("auto_create_topics", json!(false)).start().await;
    let series = async || gateway.metrics().await.lines().filter(|l| !l.starts_with('#')).count();
    raw::exchange(gateway.api, b"POST /topics/none HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\n\r\n").await;
    let before = series().await;
    let http = Producer::new(gateway.api, "t").http;
    let requests = stream::iter(0..2_000).map(|n| {
        let (http, url) = (http.clone(), format!("http://{}/topics/x-{n}", gateway.api));
        async move {
            http.post(url)
                .header("Content-Type", format!("x/{n}"))
                .header("X-Kmq-Partition-Key", format!("k{n}"))
                .send()
                .await
                .unwrap()
                .status()
                .as_u16()
        }
    });
    let statuses: Vec<u16> = requests.buffer_unordered(32).collect().await;
    assert!(statuses.iter().all(|s| *s == 404), "{statuses:?}");
    for n in 0..50 {
        raw::exchange(gateway.api, format!("M{n} /p{n}?q={n} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n").as_bytes()).await;
    }
    let after = wait::until("metrics", Duration::from_secs(1), || async { Some(series().await) }).await;
    assert!(after <= before + 4, "{before} series before, {after} after");
}

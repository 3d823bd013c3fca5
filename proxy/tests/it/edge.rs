//! Requests that are not what they should be.

use std::time::{Duration, Instant};

use crate::client::{Answer, Client, exchange, post};
use crate::gateway::{Gateway, config, running};

async fn asked(gateway: &Gateway, method: &str, target: &str, headers: &str) -> Answer {
    exchange(gateway.address, format!("{method} {target} HTTP/1.1\r\nHost: gw\r\n{headers}\r\n").as_bytes()).await
}

/// C10
#[tokio::test]
async fn an_encoded_body_is_refused_whatever_the_coding() {
    let gateway = running().await;
    for coding in ["gzip", "gzip, gzip", "zstd", "br", "identity, gzip", "x"] {
        let answer = gateway.post("/topics/t1", &format!("Content-Encoding: {coding}\r\n"), b"\x1f\x8b\x08").await;
        assert_eq!((answer.status, answer.code()), (415, "unsupported_encoding".to_owned()), "{coding}");
        assert!(answer.detail().contains("Content-Encoding"));
        assert_eq!(gateway.post("/topics/t1/batch", &format!("Content-Encoding: {coding}\r\n"), b"{}").await.status, 415);
    }
    assert_eq!(gateway.post("/topics/t1", "Content-Encoding: Identity\r\n", b"a").await.status, 200);
    assert_eq!(gateway.end("t1", 0).await, 1);
}

/// C11
#[tokio::test]
async fn a_client_that_asks_first_is_told_at_once() {
    let gateway = running().await;
    let began = Instant::now();
    for target in ["/topics/t1", "/topics/t1/batch?raw", "/topics/t1/batch?raw&results=all"] {
        let mut client = Client::connect(gateway.address).await;
        let head = format!("POST {target} HTTP/1.1\r\nHost: gw\r\nContent-Length: 2000\r\nExpect: 100-Continue\r\n\r\n");
        client.send(head.as_bytes()).await;
        assert_eq!(client.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        assert!(began.elapsed() < Duration::from_millis(200));
        client.send(&[b'x'; 2000]).await;
        assert_eq!(client.answer().await.status, 200);
    }
    assert_eq!(gateway.values("t1").await, [[b'x'; 2000]; 3]);
}

/// C11
#[tokio::test]
async fn what_cannot_be_taken_is_refused_without_a_100() {
    let gateway = running().await;
    for (target, length, expect, status) in [
        ("/topics/t1", 200_000, "100-continue", 413),
        ("/topics/a%2Fb", 10, "100-continue", 422),
        ("/topics/t1", 10, "200-ok", 417),
        ("/nothing", 10, "100-continue", 404),
        ("/topics/t1?kee=a", 10, "100-continue", 400),
    ] {
        let began = Instant::now();
        let mut client = Client::connect(gateway.address).await;
        let head = format!("POST {target} HTTP/1.1\r\nHost: gw\r\nContent-Length: {length}\r\nExpect: {expect}\r\n\r\n");
        client.send(head.as_bytes()).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (status, Some("close")), "{target}");
        assert!(client.is_closed_silently().await);
        assert!(began.elapsed() < Duration::from_millis(300));
    }
}

/// C13
#[tokio::test]
async fn a_body_that_breaks_off_is_not_produced() {
    let gateway = running().await;
    let cuts: [&[u8]; 4] = [
        &[b"Content-Length: 100\r\n\r\n".as_slice(), &[b'x'; 60]].concat(),
        b"Transfer-Encoding: chunked\r\n\r\n28\r\n0123456789",
        b"Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n0123456789\r\n0\r\n\r\n",
    ];
    for cut in cuts {
        for target in ["/topics/t1", "/topics/t1/batch?raw"] {
            let head = format!("POST {target} HTTP/1.1\r\nHost: gw\r\n");
            let mut client = Client::connect(gateway.address).await;
            client.send(&[head.as_bytes(), cut].concat()).await;
            client.half_close().await;
            assert_eq!(client.answer().await.status, 400, "{}", String::from_utf8_lossy(cut));
            assert!(client.is_closed_silently().await);
        }
    }
    assert_eq!(gateway.metric("mqgate_aborted_uploads_total", &[]), 8.0);
    let mut client = Client::connect(gateway.address).await;
    client.send(&[b"POST /topics/t1 HTTP/1.1\r\nHost: gw\r\nContent-Length: 100\r\n\r\n".as_slice(), &[b'x'; 60]].concat()).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    client.reset();
    gateway.eventually("the reset one is counted", async |g| g.metric("mqgate_aborted_uploads_total", &[]) == 9.0).await;
    assert_eq!(gateway.end("t1", 0).await, 0);
    assert_eq!(gateway.metric("mqgate_produce_in_flight", &[]), 0.0);
}

/// C13, RFC 9112 §6.3: the chunks count, and nothing after them is read as a request.
#[tokio::test]
async fn two_framings_in_one_head_smuggle_nothing() {
    let gateway = running().await;
    let smuggled = "0\r\n\r\nPOST /topics/t1 HTTP/1.1\r\nHost: gw\r\nContent-Length: 1\r\n\r\nS";
    let both = "POST /topics/t1 HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
    let mut client = Client::connect(gateway.address).await;
    client.send(format!("{both}{smuggled}").as_bytes()).await;
    assert_eq!(client.answer().await.status, 200);
    assert!(client.is_closed_silently().await);
    assert_eq!(gateway.values("t1").await, [b"a"]);
    for lengths in ["Content-Length: 1\r\nContent-Length: 2\r\n", "Content-Length: +1\r\n", "Content-Length: 1, 2\r\n"] {
        let answer = exchange(gateway.address, format!("POST /topics/t1 HTTP/1.1\r\nHost: gw\r\n{lengths}\r\nab").as_bytes()).await;
        assert_eq!((answer.status, answer.body.len()), (400, 0), "{lengths}");
    }
    assert_eq!(gateway.end("t1", 0).await, 1);
}

#[tokio::test]
async fn a_head_that_can_be_read_in_two_ways_is_refused_and_the_connection_closed() {
    let gateway = running().await;
    for (headers, says) in [
        ("Host: gw\r\nTransfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding"),
        ("Host: gw\r\nTransfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding"),
        ("Host: gw\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding"),
        ("Transfer-Encoding: chunked\r\n", "host is missing"),
        ("Host: gw\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n", "host is given twice"),
    ] {
        for target in ["/topics/t1", "/topics/t1/batch?raw", "/topics/t1/batch?raw&results=all"] {
            let mut client = Client::connect(gateway.address).await;
            client.send(format!("POST {target} HTTP/1.1\r\n{headers}\r\n1\r\na\r\n0\r\n\r\n").as_bytes()).await;
            let answer = client.answer().await;
            assert_eq!((answer.status, answer.header("connection")), (400, Some("close")), "{headers}");
            assert!(answer.detail().contains(says), "{}", answer.detail());
            assert!(client.is_closed_silently().await);
        }
    }
    let old = exchange(gateway.address, b"POST /topics/t1 HTTP/1.0\r\nContent-Length: 1\r\n\r\na").await;
    assert_eq!((old.status, gateway.end("t1", 0).await), (200, 1), "HTTP/1.0 knows no Host");
}

#[tokio::test]
async fn a_body_that_breaks_says_how_and_that_the_connection_closes() {
    let gateway = running().await;
    for (body, says) in [
        ("Content-Length: 9\r\n\r\nabc", "closed before the end"),
        ("Transfer-Encoding: chunked\r\n\r\nzz\r\n", "size in hexadecimal"),
        ("Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", "no CRLF is where a chunk should end"),
        ("Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "size in hexadecimal"),
        ("Transfer-Encoding: chunked\r\n\r\n3\r\nab", "closed before the end"),
    ] {
        for target in ["/topics/t1", "/topics/t1/batch?raw"] {
            let mut client = Client::connect(gateway.address).await;
            client.send(format!("POST {target} HTTP/1.1\r\nHost: gw\r\n{body}").as_bytes()).await;
            client.half_close().await;
            let answer = client.answer().await;
            assert_eq!((answer.status, answer.header("connection")), (400, Some("close")), "{body}");
            assert!(String::from_utf8_lossy(&answer.body).contains(says), "{body}: {answer:?}");
        }
    }
    assert_eq!(gateway.end("t1", 0).await, 0);
}

/// C15
#[tokio::test]
async fn a_topic_that_is_none_is_refused_before_the_queue() {
    let gateway = running().await;
    let series = gateway.scrape().lines().count();
    let longest = "a".repeat(249);
    for (name, status) in [
        ("a%2Fb", 422),
        ("a%20b", 422),
        ("%2e%2e", 422),
        ("..", 422),
        ("a%00b", 422),
        ("%C3%A9", 422),
        ("%ZZ", 400),
        (longest.as_str(), 404),
        (&format!("{longest}a"), 422),
        ("", 404),
        ("t1/", 404),
        ("T1", 404),
        ("t1?x=1", 400),
        ("a%2Db", 200),
    ] {
        let began = Instant::now();
        assert_eq!(gateway.post(&format!("/topics/{name}"), "", b"v").await.status, status, "{name}");
        assert!(began.elapsed() < Duration::from_millis(50) || status == 200, "{name}");
    }
    assert_eq!(gateway.end("a-b", 0).await, 1);
    assert_eq!(gateway.metric("mqgate_produce_records_total", &["refused"]), 2.0, "only legal names reach the queue");
    assert_eq!(gateway.scrape().lines().count(), series);
}

/// C15
#[tokio::test]
async fn only_post_produces() {
    let gateway = running().await;
    for target in ["/topics/t1", "/topics/t1/batch", "/produce"] {
        for method in ["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "post", "QUERY"] {
            let headers = "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\n";
            let answer = asked(&gateway, method, target, headers).await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method} {target}");
            assert!(answer.header("access-control-allow-origin").is_none());
        }
        let mut client = Client::connect(gateway.address).await;
        client.send(format!("HEAD {target} HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n").as_bytes()).await;
        let head = client.until("\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
        assert!(client.is_closed_silently().await, "HEAD was answered with a body");
    }
    assert_eq!(gateway.end("t1", 0).await, 0);
}

#[tokio::test]
async fn what_is_built_later_is_refused_by_name() {
    let gateway = running().await;
    for (target, headers, status, says) in [
        ("/topics/t1", "Content-Type: application/vnd.kafka.json.v2+json\r\n", 415, "Kafka REST"),
        ("/topics/t1/partitions/0", "", 404, "Kafka REST"),
        ("/events/t1", "", 404, "CloudEvents"),
        ("/topics/t1/", "", 404, "slash"),
        ("/", "", 404, "POST /topics/{topic}"),
    ] {
        let answer = gateway.post(target, headers, b"{}").await;
        assert_eq!(answer.status, status, "{target}");
        assert!(answer.detail().contains(says), "{}", answer.detail());
    }
}

#[tokio::test]
async fn a_connection_outlives_a_refusal_whose_body_it_has() {
    let gateway = running().await;
    let mut client = Client::connect(gateway.address).await;
    for _ in 0..3 {
        client.send(&post("/topics/a%2Fb", "", b"small")).await;
        assert_eq!(client.answer().await.status, 422);
    }
    client.send(&post("/topics/t1", "", b"good")).await;
    assert_eq!(client.answer().await.status, 200);
    let head = format!("POST /topics/t1 HTTP/1.1\r\nHost: gw\r\nContent-Length: {}\r\n\r\n", config().max_message_bytes + 1);
    client.send(head.as_bytes()).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
    assert!(client.is_closed_silently().await);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let gateway = running().await;
    let requests: Vec<u8> = (0..20).flat_map(|i| post("/topics/t1?key=k", "", i.to_string().as_bytes())).collect();
    let mut client = Client::connect(gateway.address).await;
    client.send(&requests).await;
    for i in 0..20 {
        assert_eq!(client.answer().await.json()["offset"], i);
    }
    let expected: Vec<_> = (0..20).map(|i| i.to_string().into_bytes()).collect();
    assert_eq!(gateway.values("t1").await, expected);
}

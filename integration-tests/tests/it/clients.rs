//! Clients that send odd, empty, encoded, half or contradictory requests.

use std::time::{Duration, Instant};

use bytes::Bytes;
use integration_tests::gateway::{Gateway, Setup, group};
use integration_tests::raw::{Connection, Reply};
use integration_tests::receiver::Receiver;
use integration_tests::wait;
use serde_json::json;

const SOON: Duration = Duration::from_secs(2);

async fn gateway() -> Gateway {
    let gateway = Setup::default().embedded("auto_create_topics", json!(false)).start().await;
    gateway.create_topic("t", 1).await;
    gateway
}

async fn ask(gateway: &Gateway, bytes: impl AsRef<[u8]>) -> Reply {
    let mut connection = Connection::open(gateway.api).await;
    connection.send(bytes).await;
    connection.reply(SOON).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_is_an_empty_message_in_every_framing_and_under_every_type() {
    let receiver = Receiver::ok().await;
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({}))]).start().await;
    let framings = [("", ""), ("Content-Length: 0\r\n", ""), ("Transfer-Encoding: chunked\r\n", "0\r\n\r\n")];
    let types = ["", "Content-Type: Application/JSON; Charset=UTF-8\r\n", "Content-Type: text/plain\r\n", "Content-Type: *\r\n"];
    for (framing, body) in framings {
        for kind in types {
            let started = Instant::now();
            let reply = ask(&gateway, format!("POST /topics/t HTTP/1.1\r\nHost: gw\r\n{framing}{kind}\r\n{body}")).await;
            assert_eq!(reply.status, 200, "{framing}{kind}: {reply:?}");
            assert!(started.elapsed() < Duration::from_secs(1), "{framing}{kind}");
        }
    }
    let seen = receiver.until_done(12, Duration::from_secs(5)).await;
    for push in &seen {
        assert_eq!((push.text(), push.header("Content-Length"), push.header("X-Kmq-Tombstone")), ("", Some("0"), None), "{push:?}");
    }
    for kind in ["Application/JSON; Charset=UTF-8", "text/plain", "*", "application/octet-stream"] {
        assert_eq!(seen.iter().filter(|s| s.header("Content-Type") == Some(kind)).count(), 3, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_batch_null_and_absent_are_no_key_empty_is_one_and_a_duplicate_field_is_refused() {
    let receiver = Receiver::ok().await;
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({}))]).start().await;
    let batch = |lines: &str| {
        let head =
            format!("POST /topics/t/batch HTTP/1.1\r\nHost: gw\r\nContent-Type: application/x-ndjson\r\nContent-Length: {}", lines.len());
        format!("{head}\r\n\r\n{lines}")
    };
    for (line, field) in [(r#"{"key":"a","key":"b","value":"x"}"#, "key"), (r#"{"value":"x","value":null}"#, "value")] {
        let reply = ask(&gateway, batch(line)).await;
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(reply.body.contains(&format!("duplicate field {field}")), "{field} is named: {reply:?}");
    }
    assert_eq!(gateway.written("t").await, 0, "nothing of it is produced");
    let lines =
        ["{\"key\":null,\"value\":\"1\"}", "{\"value\":\"2\"}", "{\"key\":\"\",\"value\":\"3\"}", "{\"key\":\"null\",\"value\":\"4\"}"];
    assert_eq!(ask(&gateway, batch(&lines.join("\n"))).await.status, 200);
    let mut seen = receiver.until_done(4, Duration::from_secs(5)).await;
    seen.sort_by_key(|s| s.text().to_owned());
    let keys: Vec<Option<&str>> = seen.iter().map(|s| s.key()).collect();
    assert_eq!(keys, [None, None, Some(""), Some("null")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoded_body_is_refused_by_name_and_costs_no_memory() {
    let gateway = gateway().await;
    let before = gateway.resident_bytes();
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xabV*S\xb2\xaa\x05\0\x8c\x1c\x11\x12\x07\0\0\0".to_vec();
    let cases =
        [("gzip", gzip.clone()), ("gzip", gzip[..12].to_vec()), ("gzip", vec![0; 10 << 20]), ("gzip, gzip", gzip.clone()), ("zstd", gzip)];
    for (coding, body) in cases {
        let mut connection = Connection::open(gateway.api).await;
        let head = format!("POST /topics/t HTTP/1.1\r\nHost: gw\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.send(head).await;
        // What is refused unread may find the connection closed.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut connection.stream, &body).await;
        let reply = connection.reply(SOON).await.expect("an answer");
        assert_eq!(reply.status, 415, "{coding}: {reply:?}");
        assert!(reply.body.contains("Content-Encoding"), "{coding}: the header is named: {reply:?}");
    }
    assert_eq!(gateway.written("t").await, 0);
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{} KiB more for bodies that were refused", grown >> 10);
    let plain = ask(&gateway, "POST /topics/t HTTP/1.1\r\nHost: gw\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi").await;
    assert_eq!(plain.status, 200, "{plain:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_expects_100_is_told_at_once() {
    let gateway = gateway().await;
    let head = "POST /topics/t HTTP/1.1\r\nHost: gw\r\nContent-Length: 2000\r\nExpect: 100-continue\r\n\r\n";
    let (mut fastest, mut fastest_whole) = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        let mut connection = Connection::open(gateway.api).await;
        let started = Instant::now();
        connection.send(head).await;
        assert_eq!(connection.reply(SOON).await.expect("an interim answer").status, 100);
        fastest = fastest.min(started.elapsed());
        connection.send(vec![b'x'; 2000]).await;
        assert_eq!(connection.reply(SOON).await.expect("the answer").status, 200);
        fastest_whole = fastest_whole.min(started.elapsed());
    }
    assert!(fastest < Duration::from_millis(200), "100 after {fastest:?}");
    assert!(fastest_whole < Duration::from_millis(300), "200 after {fastest_whole:?}");
    let refused = [
        ("POST /topics/t HTTP/1.1\r\nHost: gw\r\nContent-Length: 2000000\r\nExpect: 100-continue\r\n\r\n", 413),
        ("POST /topics/a%20b HTTP/1.1\r\nHost: gw\r\nContent-Length: 2000\r\nExpect: 100-continue\r\n\r\n", 422),
        (
            "POST /topics/none HTTP/1.1\r\nHost: gw\r\nContent-Length: 2000\r\nX-Kmq-Header-mqgate-id: x\r\nExpect: 100-continue\r\n\r\n",
            400,
        ),
        ("POST /topics/t HTTP/1.1\r\nHost: gw\r\nContent-Length: 2000\r\nExpect: 200-ok\r\n\r\n", 417),
    ];
    for (head, status) in refused {
        let mut connection = Connection::open(gateway.api).await;
        let started = Instant::now();
        connection.send(head).await;
        let reply = connection.reply(SOON).await.expect("an answer");
        assert_eq!(reply.status, status, "at once, without a 100: {reply:?}");
        assert!(started.elapsed() < Duration::from_secs(1));
        assert_eq!(reply.header("connection"), Some("close"), "nobody knows whether the body comes: {reply:?}");
        connection.end(Duration::from_secs(3)).await;
    }
    assert_eq!(gateway.written("t").await, 5);
}

/// What is sent, how it ends, and the statuses that may come back.
struct Broken {
    bytes: &'static str,
    reset: bool,
    statuses: &'static [Option<u16>],
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_body_is_never_produced_and_nothing_is_smuggled() {
    let gateway = Setup::default().start().await;
    gateway.create_topic("t", 1).await;
    let cases = [
        Broken {
            bytes: "Content-Length: 100\r\n\r\n012345678901234567890123456789012345678901234567890123456789",
            reset: false,
            statuses: &[Some(400)],
        },
        Broken {
            bytes: "Content-Length: 100\r\n\r\n012345678901234567890123456789012345678901234567890123456789",
            reset: true,
            statuses: &[None],
        },
        Broken { bytes: "Transfer-Encoding: chunked\r\n\r\n28\r\n0123456789", reset: false, statuses: &[Some(400)] },
        Broken { bytes: "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", reset: false, statuses: &[Some(400)] },
        Broken { bytes: "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", reset: false, statuses: &[Some(400)] },
        Broken {
            bytes: "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!POST /topics/smuggled HTTP/1.1\r\nHost: gw\r\n\r\n",
            reset: false,
            statuses: &[Some(400)],
        },
    ];
    let aborted = || gateway.metric("mqgate_aborted_uploads_total", &[]);
    for case in &cases {
        let mut connection = Connection::open(gateway.api).await;
        connection.send(format!("POST /topics/t HTTP/1.1\r\nHost: gw\r\n{}", case.bytes)).await;
        let status = if case.reset {
            tokio::time::sleep(Duration::from_millis(50)).await;
            socket2::SockRef::from(&connection.stream).set_linger(Some(Duration::ZERO)).unwrap();
            drop(connection);
            None
        } else {
            tokio::io::AsyncWriteExt::shutdown(&mut connection.stream).await.unwrap();
            let reply = connection.reply(SOON).await;
            connection.end(Duration::from_secs(3)).await;
            reply.map(|r| r.status)
        };
        assert!(case.statuses.contains(&status), "{status:?} to {:?}", case.bytes);
    }
    wait::until("the count of aborted uploads", SOON, || async { (aborted().await >= 4.0).then_some(()) }).await;
    assert_eq!(gateway.written("t").await, 0, "nothing of it is produced");
    assert_eq!(gateway.topic_bounds("smuggled").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_framings_at_once_are_refused_or_read_as_chunks_and_the_connection_ends() {
    let gateway = Setup::default().start().await;
    let inner = "POST /topics/smuggled HTTP/1.1\r\nHost: gw\r\nContent-Length: 1\r\n\r\nx";
    for order in ["Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5"] {
        let mut connection = Connection::open(gateway.api).await;
        connection.send(format!("POST /topics/t HTTP/1.1\r\nHost: gw\r\n{order}\r\n\r\n2\r\nhi\r\n0\r\n\r\n{inner}")).await;
        let reply = connection.reply(SOON).await.expect("an answer");
        assert!([400, 200].contains(&reply.status), "{reply:?}");
        let rest = connection.end(Duration::from_secs(3)).await;
        assert!(!rest.contains("HTTP/1.1"), "what follows is no request: {rest}");
    }
    assert_eq!(gateway.topic_bounds("smuggled").await, [], "nothing was smuggled");
    let read_as_chunks = gateway.stored("t").await;
    assert!(read_as_chunks.iter().all(|r| r.value.as_deref() == Some(b"hi")), "{read_as_chunks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_too_large_fails_alone_and_each_size_has_a_definite_answer() {
    let gateway = Setup::default().proxy("max_message_bytes", json!(100_000)).start().await;
    gateway.create_topic("t", 1).await;
    let producer = integration_tests::producer::Producer::new(gateway.api, "t");
    let send = |bytes: usize, header: Option<String>| {
        let producer = producer.clone();
        async move {
            let value = header.unwrap_or_default();
            let headers: &[(&str, &str)] = if value.is_empty() { &[] } else { &[("X-Kmq-Header-x", &value)] };
            producer.plain(Some("k"), headers, Bytes::from(vec![b'x'; bytes])).await
        }
    };
    let sizes = (0..51).map(|n| if n == 25 { 150_000 } else { 4_096 });
    let answers = futures_util::future::join_all(sizes.map(|bytes| send(bytes, None))).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.as_ref().err().and_then(|r| r.status), (n == 25).then_some(413), "{n}: {answer:?}");
    }
    let refused = answers[25].as_ref().unwrap_err();
    assert!(refused.body.contains("100000") && refused.body.contains("\"retriable\":false"), "which limit: {}", refused.body);
    // Key, id and whatever else travels with the message count: so the boundary is found, and is sharp.
    let (mut fits, mut refused) = (99_000, 100_001);
    while refused - fits > 1 {
        let middle = usize::midpoint(fits, refused);
        match send(middle, None).await {
            Ok(_) => fits = middle,
            Err(no) if no.status == Some(413) => refused = middle,
            Err(no) => panic!("{middle}: neither taken nor too large: {no:?}"),
        }
    }
    assert!((99_900..=100_000).contains(&fits), "{fits} bytes fit");
    let with_headers = send(fits, Some("h".repeat(2_048))).await.unwrap_err();
    assert_eq!(with_headers.status, Some(413), "{with_headers:?}");
    assert_eq!(send(fits, None).await.map_err(|no| no.status).map(|_| ()), Ok(()));
}

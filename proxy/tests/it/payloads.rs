//! What arrives in the log is what was posted.

use std::collections::HashSet;
use std::time::Duration;

use common::record::header;
use serde_json::json;

use crate::client::{exchange, post};
use crate::gateway::{config, running, running_with};

/// C01
#[tokio::test]
async fn bodies_are_carried_byte_for_byte_and_never_read() {
    let gateway = running().await;
    let bodies: [&[u8]; 8] = [
        b"YWJjZA==",
        b"this is a test",
        b"{ \"b\" :1,\n \"a\":1.0, \"u\":\"\\u00e9\\/\" }",
        b"\"quoted\"",
        b"null",
        b" \r\n spaces \r\n ",
        b"\x00\xFF\r\n0\r\n\r\n",
        b"{\"status\":400,\"status\":200}", // C07
    ];
    for body in bodies {
        assert_eq!(gateway.post("/topics/t1", "Content-Type: application/json\r\n", body).await.status, 200);
        let headers = "X-Kmq-Topic: t1\r\nX-Kmq-Partition-Key: k\r\n";
        assert_eq!(gateway.post("/produce?format=json", headers, body).await.status, 200);
    }
    let expected: Vec<_> = bodies.iter().flat_map(|body| [body.to_vec(), body.to_vec()]).collect();
    assert_eq!(gateway.values("t1").await, expected);
}

/// C01
#[tokio::test]
async fn a_body_in_many_pieces_is_one_value() {
    let gateway = running().await;
    let body: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
    let chunks: Vec<u8> = body.chunks(777).flat_map(|c| [format!("{:x}\r\n", c.len()).as_bytes(), c, b"\r\n"].concat()).collect();
    let head = "POST /topics/t1 HTTP/1.1\r\nHost: gw\r\nIdempotency-Key: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let too_much = exchange(gateway.address, &[head.as_bytes(), &chunks, b"0\r\n\r\n"].concat()).await;
    assert_eq!((too_much.status, too_much.code()), (413, "too_large".to_owned()));
    let less = &body[..90_000];
    let chunks: Vec<u8> = less.chunks(777).flat_map(|c| [format!("{:x}\r\n", c.len()).as_bytes(), c, b"\r\n"].concat()).collect();
    assert_eq!(exchange(gateway.address, &[head.as_bytes(), &chunks, b"0\r\n\r\n"].concat()).await.status, 200);
    assert_eq!(gateway.post("/topics/t1", "", less).await.status, 200);
    assert_eq!(gateway.values("t1").await, [less, less]);
}

/// C02
#[tokio::test]
async fn no_key_spreads_and_the_empty_key_and_the_text_null_are_keys() {
    let gateway = running().await;
    let mut partitions = [HashSet::new(), HashSet::new(), HashSet::new()];
    for _ in 0..60 {
        for (target, seen) in ["/topics/t6", "/topics/t6?key=", "/topics/t6?key=null"].iter().zip(&mut partitions) {
            let answer = gateway.post(target, "", b"x").await;
            seen.insert(answer.json()["partition"].as_u64().unwrap());
        }
    }
    let [none, empty, null] = partitions;
    assert!(none.len() > 1, "{none:?}");
    assert_eq!((empty.len(), null.len()), (1, 1));
    let empty = u32::try_from(*empty.iter().next().unwrap()).unwrap();
    let keys: HashSet<_> = gateway.records("t6", empty).await.into_iter().map(|r| r.payload.key).collect();
    assert!(keys.contains(&Some("".into())));
    assert!(!keys.contains(&Some("null".into())) || null.contains(&empty.into()));
}

/// C05
#[tokio::test]
async fn zero_bytes_are_an_empty_value_however_they_are_framed() {
    let gateway = running().await;
    let mut posted = 0;
    for content_type in ["", "Content-Type: Application/JSON; Charset=UTF-8\r\n", "Content-Type: text/plain\r\n", "Content-Type: *\r\n"] {
        for framing in ["\r\n", "Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"] {
            let request = format!("POST /topics/t1 HTTP/1.1\r\nHost: gw\r\n{content_type}{framing}");
            let answer = tokio::time::timeout(Duration::from_secs(1), exchange(gateway.address, request.as_bytes())).await.unwrap();
            assert_eq!(answer.status, 200, "{request}");
            posted += 1;
        }
    }
    assert_eq!(gateway.values("t1").await, vec![Vec::<u8>::new(); posted]);
}

/// C08
#[tokio::test]
async fn an_oversized_message_fails_alone() {
    let gateway = running().await;
    let (small, large) = (vec![b's'; 4096], vec![b'l'; 150_000]);
    let large = gateway.post("/topics/t1", "", &large);
    let neighbours = futures_util::future::join_all((0..50).map(|_| gateway.post("/topics/t1", "", &small)));
    let (large, neighbours) = tokio::join!(large, neighbours);
    assert_eq!((large.status, large.code()), (413, "too_large".to_owned()));
    assert!(large.detail().contains("max_message_bytes"), "{large:?}");
    assert!(neighbours.iter().all(|answer| answer.status == 200));
    assert_eq!(gateway.end("t1", 0).await, 50);
}

/// C08: key, value and headers count together.
#[tokio::test]
async fn sizes_at_the_limit_have_a_definite_answer() {
    let gateway = running().await;
    let limit = config().max_message_bytes;
    let beside = header::ID.len() + "id".len();
    for (headers, beside) in [("", 0), ("X-Kmq-Header-abcd: efgh\r\n", 8), ("X-Kmq-Partition-Key: key\r\n", 3)] {
        let headers = format!("Idempotency-Key: id\r\n{headers}");
        let largest = limit - beside - header::ID.len() - 2;
        for (bytes, status) in [(largest - 1, 200), (largest, 200), (largest + 1, 413)] {
            assert_eq!(gateway.post("/topics/t1", &headers, &vec![b'x'; bytes]).await.status, status, "{bytes} {headers}");
        }
    }
    let many = format!("X-Kmq-Header-a: {}\r\n", "h".repeat(2048));
    assert_eq!(gateway.post("/topics/t1", &many, &vec![b'x'; limit - beside - 1]).await.status, 413);
}

#[tokio::test]
async fn what_stands_beside_the_body_is_in_the_record() {
    let gateway = running().await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() - 5000;
    let headers = "Content-Type: text/x\r\nX-Kmq-Logid: L\r\ntraceparent: T\r\nIdempotency-Key: me:1\r\nX-Kmq-Header-CE_type: a\r\n";
    let answer = gateway.post(&format!("/topics/t6?key=a+b&partition=4&timestamp={now}"), headers, b"v").await;
    let expected = json!({"topic": "t6", "partition": 4, "offset": 0, "timestamp": u64::try_from(now).unwrap()});
    assert_eq!((answer.status, answer.json()), (200, expected));
    let record = gateway.records("t6", 4).await.remove(0);
    assert_eq!((record.payload.key.as_deref(), u128::try_from(record.timestamp).unwrap()), (Some(&b"a b"[..]), now));
    let values = [header::CONTENT_TYPE, header::LOGID, header::TRACEPARENT, header::ID, header::CE_TYPE];
    let values = values.map(|name| record.payload.header(name).cloned().unwrap_or_default());
    assert_eq!(values, ["text/x", "L", "T", "me:1", "a"]);
}

#[tokio::test]
async fn less_than_an_acknowledgement_is_202() {
    let gateway = running().await;
    let answer = gateway.post("/topics/t1?ack=none", "", b"v").await;
    assert_eq!((answer.status, answer.json()), (202, json!({"topic": "t1"})));
    gateway.eventually("written all the same", async |g| g.end("t1", 0).await == 1).await;
    assert_eq!(gateway.metric("mqgate_produce_requests_total", &["plain", "\"202\""]), 1.0);
}

#[tokio::test]
async fn the_originals_dialect_answers_in_its_own_shape_always() {
    let gateway = running().await;
    let headers = "X-Kmq-Topic: t1\r\nX-Kmq-Partition-Key: k\r\n";
    let answer = gateway.post("/produce?format=json", headers, b"v").await;
    assert_eq!(answer.json(), json!({"errno": 0, "errmsg": "ok", "data": {"Topic": "t1", "Partition": 0, "Offset": 0}}));
    for (target, headers, status) in [
        ("/produce", "X-Kmq-Topic: nope\r\nX-Kmq-Partition-Key: k\r\n", 404),
        ("/produce", "X-Kmq-Topic: a/b\r\nX-Kmq-Partition-Key: k\r\n", 422),
        ("/produce", "X-Kmq-Partition-Key: k\r\n", 400),
        ("/produce", "X-Kmq-Topic: t1\r\nX-Kmq-Partition-Key: \r\n", 400),
        ("/produce?format=msgpack", headers, 415),
    ] {
        let answer = gateway.post(target, headers, b"v").await;
        let body = answer.json();
        assert_eq!((answer.status, &body["errno"]), (status, &json!(-i32::from(status))));
        assert!(body["errmsg"].is_string() && body["data"].is_object(), "{body}");
    }
    let answer = exchange(gateway.address, b"GET /produce HTTP/1.1\r\nHost: gw\r\n\r\n").await;
    assert_eq!((answer.status, answer.header("allow"), answer.json()["errno"].as_i64()), (405, Some("POST"), Some(-405)));
}

#[tokio::test]
async fn unknown_topics_and_partitions_are_404_and_come_from_nowhere() {
    let gateway = running_with(config()).await;
    for (target, code) in [("/topics/nope", "unknown_topic"), ("/topics/t1?partition=7", "unknown_partition")] {
        let answer = exchange(gateway.address, &post(target, "", b"v")).await;
        assert_eq!((answer.status, answer.code()), (404, code.to_owned()));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
}

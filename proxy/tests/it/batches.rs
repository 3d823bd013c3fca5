//! Many messages in one request.

use std::time::{Duration, Instant};

use common::config::ProxyConfig;
use common::queue::{NotWritten, ProduceError};
use common::record::header;
use serde_json::{Value, json};

use crate::client::{Answer, Client, post};
use crate::gateway::{Gateway, config, running, running_with};

const NDJSON: &str = "Content-Type: application/x-ndjson\r\n";

async fn batch(gateway: &Gateway, query: &str, body: &[u8]) -> Answer {
    gateway.post(&format!("/topics/t1/batch{query}"), NDJSON, body).await
}

fn counts(answer: &Answer) -> (u16, u64, u64) {
    let summary = answer.json();
    (answer.status, summary["accepted"].as_u64().unwrap(), summary["failed"].as_u64().unwrap())
}

#[tokio::test]
async fn every_line_is_a_message_in_the_order_of_lines() {
    let gateway = running().await;
    let lines: String = (0..5000).map(|i| format!("{{\"key\":\"k{}\",\"value\":{i},\"headers\":{{\"a\":\"b\"}}}}\n", i % 7)).collect();
    let answer = batch(&gateway, "", lines.as_bytes()).await;
    assert_eq!(answer.json(), json!({"accepted": 5000, "failed": 0, "errors": [], "errors_truncated": false}));
    let records = gateway.records("t1", 0).await;
    for (i, record) in records.iter().enumerate() {
        assert_eq!(record.payload.value.as_deref(), Some(i.to_string().as_bytes()));
        assert_eq!(record.payload.key.as_deref(), Some(format!("k{}", i % 7).as_bytes()));
        assert_eq!(record.payload.header("a").unwrap(), "b");
        assert_eq!(record.payload.header(header::CONTENT_TYPE).unwrap(), "application/json");
    }
    assert_eq!(records.len(), 5000);
    assert_eq!(gateway.metric("mqgate_produce_requests_total", &["batch", "\"200\""]), 1.0);
}

/// C18 (d): exactly the accepted lines are there, in order, and the status tells of the others.
#[tokio::test]
async fn a_partial_failure_cannot_be_missed() {
    let gateway = running().await;
    let huge = format!("{{\"value\":\"{}\"}}", "x".repeat(2_000_000));
    let medium = format!("{{\"value\":\"{}\"}}", "x".repeat(config().max_message_bytes));
    let lines =
        ["{\"value\":1}", "{\"value\":\"a\"b\"}", "{\"value\":\"100%\"}", &huge, "{\"value\":2}", &medium, "{}", "{\"value\":3}", "", ""];
    let answer = batch(&gateway, "", lines.join("\n").as_bytes()).await;
    assert_eq!(counts(&answer), (422, 4, 4));
    let errors: Vec<Value> =
        answer.json()["errors"].as_array().unwrap().iter().map(|e| json!([e["line"], e["status"], e["code"]])).collect();
    assert_eq!(
        errors,
        [json!([2, 400, "malformed"]), json!([4, 413, "too_large"]), json!([6, 413, "too_large"]), json!([7, 400, "malformed"])]
    );
    assert_eq!(gateway.values("t1").await, [&b"1"[..], b"100%", b"2", b"3"]);
}

/// C07
#[tokio::test]
async fn a_line_with_a_field_twice_is_refused_by_name_and_not_produced() {
    let gateway = running().await;
    let body = b"{\"key\":\"a\",\"key\":\"b\",\"value\":\"x\"}\n{\"value\":\"x\",\"value\":null}";
    let answer = batch(&gateway, "", body).await;
    assert_eq!(counts(&answer), (400, 0, 2));
    for (error, field) in answer.json()["errors"].as_array().unwrap().iter().zip(["key", "value"]) {
        assert!(error["detail"].as_str().unwrap().contains(&format!("duplicate field {field}")), "{error}");
    }
    assert_eq!(gateway.end("t1", 0).await, 0);
}

/// C03
#[tokio::test]
async fn a_tombstone_and_an_empty_value_are_two_things() {
    let gateway = running().await;
    let answer = batch(&gateway, "", b"{\"key\":\"k\",\"value\":null}\n{\"key\":\"k\",\"value\":\"\"}\n").await;
    assert_eq!(counts(&answer), (200, 2, 0));
    let values: Vec<_> = gateway.records("t1", 0).await.into_iter().map(|r| r.payload.value).collect();
    assert_eq!(values, [None, Some("".into())]);
}

#[tokio::test]
async fn raw_lines_are_values_and_each_has_an_id_of_its_own() {
    let gateway = running().await;
    let answer = gateway.post("/topics/t1/batch?raw", "Idempotency-Key: import-1\r\nX-Kmq-Logid: L\r\n", b"{\"a\":1}\n\n x \r\nlast").await;
    assert_eq!(counts(&answer), (200, 3, 0));
    assert_eq!(gateway.values("t1").await, [&b"{\"a\":1}"[..], b" x \r", b"last"]);
    let records = gateway.records("t1", 0).await;
    let ids: Vec<_> = records.iter().map(|r| r.payload.header(header::ID).unwrap().clone()).collect();
    assert_eq!(ids, ["import-1_1", "import-1_3", "import-1_4"]);
    assert!(records.iter().all(|r| r.payload.header(header::LOGID).unwrap() == "L"));
}

#[tokio::test]
async fn failures_of_the_queue_decide_the_status() {
    let gateway = running().await;
    for (error, status) in [
        (ProduceError::NotWritten(NotWritten::DiskFull, "full".into()), 503),
        (ProduceError::MaybeWritten("cut".into()), 504),
        (ProduceError::RecordRefused("no key".into()), 422),
    ] {
        gateway.gate.refuse(Some(error));
        let answer = batch(&gateway, "?raw", b"a\nb\n").await;
        assert_eq!(counts(&answer), (status, 0, 2));
        assert_eq!(answer.header("retry-after").is_some(), status == 503);
    }
    assert_eq!(batch(&gateway, "?results=some", b"a").await.status, 400);
    assert_eq!(gateway.post("/topics/t1/batch", "Content-Type: application/json\r\n", b"[]").await.status, 415);
}

/// Every result is there before the next line is written.
#[tokio::test]
async fn results_come_while_the_client_still_writes() {
    let gateway = running().await;
    let mut client = Client::connect(gateway.address).await;
    let head = "POST /topics/t1/batch?results=all HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(head.as_bytes()).await;
    for i in 0..5 {
        let line = if i == 3 { "{}\n".to_owned() } else { format!("{{\"value\":{i}}}\n") };
        client.send(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes()).await;
        if i == 0 {
            assert!(client.until("\r\n\r\n").await.starts_with("HTTP/1.1 200 "));
        }
        let result: Value = serde_json::from_slice(&client.chunk().await.unwrap()).unwrap();
        assert_eq!((&result["line"], &result["status"]), (&json!(i + 1), &json!(if i == 3 { 400 } else { 200 })));
    }
    client.send(b"0\r\n\r\n").await;
    let summary: Value = serde_json::from_slice(&client.chunk().await.unwrap()).unwrap();
    assert_eq!((&summary["accepted"], &summary["failed"], &summary["status"]), (&json!(4), &json!(1), &json!(422)));
    assert_eq!(client.chunk().await, None);
    gateway
        .eventually("counted by its real status", async |g| g.metric("mqgate_produce_requests_total", &["batch", "\"422\""]) == 1.0)
        .await;
}

#[tokio::test]
async fn all_results_come_in_the_order_of_lines_and_end_with_the_summary() {
    let gateway = running().await;
    let body: String = (0..3000).map(|i| if i % 100 == 99 { "?\n".to_owned() } else { format!("{{\"value\":{i}}}\n") }).collect();
    let mut lines = batch(&gateway, "?results=all", body.as_bytes()).await.lines();
    let summary = lines.pop().unwrap();
    assert_eq!((&summary["accepted"], &summary["failed"], &summary["status"]), (&json!(2970), &json!(30), &json!(422)));
    assert!(lines.iter().zip(1..).all(|(result, line)| result["line"] == line));
    assert_eq!(lines.len(), 3000);
}

/// C13
#[tokio::test]
async fn a_batch_that_breaks_off_says_what_was_written() {
    let gateway = running().await;
    let mut client = Client::connect(gateway.address).await;
    client.send(b"POST /topics/t1/batch?raw HTTP/1.1\r\nHost: gw\r\nContent-Length: 100\r\n\r\none\ntwo\nthr").await;
    client.half_close().await;
    let answer = client.answer().await;
    assert_eq!(counts(&answer), (400, 2, 1));
    assert_eq!(answer.json()["errors"][0]["line"], 3);
    assert_eq!(gateway.values("t1").await, [b"one", b"two"]);
}

#[tokio::test]
async fn each_line_has_the_bodys_time_to_come_and_no_more() {
    let gateway = running().await;
    let limit = config().body_timeout;
    let mut client = Client::connect(gateway.address).await;
    client.send(b"POST /topics/t1/batch?raw HTTP/1.1\r\nHost: gw\r\nContent-Length: 100\r\n\r\n").await;
    for _ in 0..3 {
        client.send(b"a\n").await;
        tokio::time::sleep(limit * 6 / 10).await;
    }
    let began = Instant::now();
    client.send(b"b").await;
    let answer = client.answer().await;
    assert_eq!(counts(&answer), (408, 3, 1));
    assert!(began.elapsed() < limit);
    assert!(client.is_closed_silently().await);
}

/// 16 MiB go through a process that may hold 1 MiB, with the queue standing still at first.
#[tokio::test]
async fn a_long_body_needs_no_more_memory_than_a_short_one() {
    let gateway = running_with(ProxyConfig { max_in_flight_bytes: 1 << 20, ..config() }).await;
    gateway.gate.close();
    let line = [&[b'x'; 1023][..], b"\n"].concat();
    let body = line.repeat(16 << 10);
    let (address, request) = (gateway.address, post("/topics/t1/batch?raw", "", &body));
    let posted = tokio::spawn(async move { crate::client::exchange(address, &request).await });
    gateway.eventually("the bound is reached", async |g| g.end("t1", 0).await >= 900).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(gateway.end("t1", 0).await <= 1024);
    let refused = gateway.post("/topics/t1", "", &[b'y'; 90_000]).await;
    assert_eq!((refused.status, refused.code()), (503, "too_many_in_flight".to_owned()));
    gateway.gate.open();
    assert_eq!(counts(&posted.await.unwrap()), (200, 16 << 10, 0));
}

/// C17
#[tokio::test]
async fn a_batch_whose_client_is_gone_leaks_nothing() {
    let gateway = running().await;
    gateway.gate.close();
    for (query, going) in [("?raw", true), ("?raw&results=all", true), ("?raw&results=all", false)] {
        let mut client = Client::connect(gateway.address).await;
        let head = format!("POST /topics/t1/batch{query} HTTP/1.1\r\nHost: gw\r\nContent-Length: 100\r\n\r\na\nb\nc");
        client.send(head.as_bytes()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if going { client.reset() } else { drop(client) }
    }
    gateway.eventually("all lines are written", async |g| g.end("t1", 0).await == 6).await;
    gateway.gate.open();
    gateway.eventually("nothing is held", async |g| g.metric("mqgate_produce_in_flight", &[]) == 0.0).await;
    assert_eq!(gateway.metric("mqgate_produce_records_total", &["written"]), 6.0);
    assert_eq!(gateway.end("t1", 0).await, 6);
}

//! Receivers that are down, frozen, slow or stuck, and what that may cost.

use std::time::Duration;

use bytes::Bytes;
use integration_tests::gateway::{Gateway, Setup, group};
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use serde_json::json;

async fn fill(gateway: &Gateway, topic: &str, records: usize, bytes: usize) {
    let producer = Producer::new(gateway.api, topic);
    let per_batch = (4 << 20) / bytes.max(1_000);
    for start in (0..records).step_by(per_batch) {
        let lines: Vec<(String, Bytes)> =
            (start..records.min(start + per_batch)).map(|n| (format!("k{}", n % 10_000), Bytes::from(vec![b'x'; bytes]))).collect();
        producer.batch(&lines, &json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_for_a_receiver_that_is_down_does_not_grow_the_process() {
    let mut receiver = Receiver::ok().await;
    receiver.close();
    let gateway =
        Setup::groups([group("g", "t", &receiver.url(), &json!({"retry_backoff": {"initial": "100ms", "max": "1s"}}))]).start().await;
    fill(&gateway, "t", 3_000, 100_000).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let resident = gateway.resident_bytes();
    assert!(resident <= 200 << 20, "{} MB resident with 300 MB behind a dead receiver", resident >> 20);
    let before = gateway.metric("mqgate_attempts_total", &[("group", "g")]).await;
    let cpu = gateway.metric("process_cpu_seconds_total", &[]).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let attempts = gateway.metric("mqgate_attempts_total", &[("group", "g")]).await - before;
    assert!(attempts > 0.0, "it keeps trying");
    let cpu = gateway.metric("process_cpu_seconds_total", &[]).await - cpu;
    assert!(cpu < 1.5, "{cpu} CPU seconds in 3 s of retrying: a hot loop");
    receiver.open().await;
    receiver.until_done(3_000, Duration::from_secs(30)).await;
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
    assert!(gateway.resident_bytes() <= 200 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stuck_record_holds_back_nothing_but_its_key() {
    let receiver = Receiver::start(|s| Answer::Status(if s.key() == Some("bad") { 500 } else { 200 })).await;
    let policy = json!({"worker_num": 32, "failed_sleep": "500ms", "commit_interval": "300ms"});
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).embedded("partitions", json!(1)).start().await;
    Producer::new(gateway.api, "t").plain(Some("bad"), &[], Bytes::from_static(b"x")).await.unwrap();
    fill(&gateway, "t", 60_000, 100).await;
    receiver.until_done(60_000, Duration::from_secs(40)).await;
    let group = gateway.group("g").await;
    let partition = &group["partitions"][0];
    assert_eq!(partition["cursor"], 0, "{partition}");
    assert!(partition["live"].to_string().contains("\"offset\":0"), "it names the record that blocks: {partition}");
    assert!(gateway.resident_bytes() <= 120 << 20, "{} MB", gateway.resident_bytes() >> 20);
    assert!(gateway.metric("mqgate_oldest_unfinished_seconds", &[("group", "g")]).await > 0.5);
    receiver.script(|_| Answer::Status(200));
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
    let bad = receiver.seen().iter().filter(|s| s.key() != Some("bad")).count();
    assert_eq!(bad, 60_000, "each of the others exactly once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_receiver_is_served_when_it_thaws() {
    let receiver = Receiver::start(|_| Answer::Hang).await;
    let policy = json!({"timeout": "500ms", "worker_num": 4, "failed_sleep": "200ms"});
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).start().await;
    fill(&gateway, "t", 200, 1_000).await;
    receiver.until_count(12, Duration::from_secs(6)).await;
    let open = receiver.seen().iter().filter(|s| s.at.elapsed() < Duration::from_millis(400)).count();
    assert!(open <= 8, "{open} attempts at once with 4 workers");
    receiver.script(|_| Answer::Status(200));
    receiver.until_done(200, Duration::from_secs(10)).await;
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_are_counted_and_forgotten_when_done() {
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    let policy = json!({"retry_times": 100_000, "retry_backoff": {"initial": "200ms", "max": "200ms"}, "worker_num": 64});
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).start().await;
    let producer = Producer::new(gateway.api, "t");
    for n in 0..200 {
        producer.plain(Some(&format!("k{n}")), &[], Bytes::from(n.to_string())).await.unwrap();
    }
    receiver.until_count(600, Duration::from_secs(10)).await;
    for _ in 0..5 {
        let pending = gateway.metric("mqgate_pending_retries", &[("group", "g")]).await;
        assert!((100.0..=200.0).contains(&pending), "{pending} pending retries of 200 failing records");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    receiver.script(|_| Answer::Status(200));
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
    assert_eq!(gateway.metric("mqgate_pending_retries", &[("group", "g")]).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_refuses_is_not_hammered_and_is_served_soon_after_it_opens() {
    let mut refusing = Receiver::ok().await;
    refusing.close();
    let healthy = Receiver::ok().await;
    let groups = [("refused", &refusing), ("healthy", &healthy)].map(|(name, receiver)| group(name, "t", &receiver.url(), &json!({})));
    let gateway = Setup::groups(groups).embedded("partitions", json!(2)).start().await;
    fill(&gateway, "t", 20_000, 100).await;
    healthy.until_done(20_000, Duration::from_secs(30)).await;
    let attempts = || gateway.metric("mqgate_attempts_total", &[("group", "refused")]);
    let (before, cpu) = (attempts().await, gateway.cpu());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let made = attempts().await - before;
    assert!((300.0..1_800.0).contains(&made), "{made} attempts in 3 s");
    let cpu = gateway.cpu() - cpu;
    assert!(cpu < Duration::from_secs(1), "{cpu:?} of CPU in 3 s with nothing to do but to be refused");
    refusing.open().await;
    refusing.until_count(1, Duration::from_secs(2)).await;
    refusing.until_done(20_000, Duration::from_secs(30)).await;
    gateway.until_caught_up("refused", Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_topic_that_is_away_is_shown_as_what_holds_the_group_up() {
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    let policy = json!({"bypass_failed": true, "dead_letter_topic": "dead"});
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)])
        .embedded("partitions", json!(1))
        .embedded("auto_create_topics", json!(false))
        .start()
        .await;
    gateway.create_topic("t", 1).await;
    let of = |reason| [("group", "g"), ("topic", "t"), ("reason", reason)];
    let shown = gateway.metrics().await;
    assert!(shown.contains(r#"mqgate_bypassed_total{group="g",topic="t",reason="status_5xx"} 0"#), "a rate sees the first: {shown}");
    assert!(shown.contains(r#"mqgate_skipped_records_total{group="g",topic="t",reason="below_first"} 0"#), "{shown}");
    assert_eq!(gateway.delete_topic("dead").await, 204);
    Producer::new(gateway.api, "t").plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
    receiver.until_count(1, Duration::from_secs(5)).await;
    let error = async {
        loop {
            let error = gateway.group("g").await["partitions"][0]["live"]["oldest_unfinished"]["last_error"].clone();
            if error["reason"] == "bypass" {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let error = tokio::time::timeout(Duration::from_secs(5), error).await.unwrap();
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.contains("dead-letter topic dead") && detail.contains("given up for status_5xx"), "{error}");
    gateway.create_topic("dead", 1).await;
    gateway.until_caught_up("g", Duration::from_secs(15)).await;
    assert_eq!(gateway.metric("mqgate_bypassed_total", &of("status_5xx")).await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_deleted_is_no_error_in_the_log() {
    let receiver = Receiver::ok().await;
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({}))]).start().await;
    gateway.create_topic("t", 4).await;
    let producer = Producer::new(gateway.api, "t");
    for n in 0..20 {
        producer.plain(Some(&format!("k{n}")), &[], Bytes::from(n.to_string())).await.unwrap();
    }
    receiver.until_done(20, Duration::from_secs(5)).await;
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
    assert_eq!(gateway.delete_topic("t").await, 204);
    let given_up = async {
        while gateway.metric("mqgate_owned_partitions", &[("group", "g")]).await > 0.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), given_up).await.unwrap();
    let errors: Vec<_> = gateway.log_lines().into_iter().filter(|line| line["level"] == "ERROR").collect();
    assert!(errors.is_empty(), "{errors:?}");
}

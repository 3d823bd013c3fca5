//! What is bounded: what is read ahead, retried, remembered and shown.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use integration_tests::backend::{Backend, Site};
use integration_tests::gateway::{Setup, group};
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::wait;
use serde_json::json;

on_each_backend! {
    at_its_window_one_partition_stops_reading_and_says_for_what_it_waits,
    a_backlog_on_many_partitions_stays_where_it_is_while_the_receiver_is_down,
}

async fn at_its_window_one_partition_stops_reading_and_says_for_what_it_waits(backend: Backend) {
    let receiver = Receiver::start(|s| Answer::Status(if s.partition() == 0 && s.key() == Some("bad") { 500 } else { 200 })).await;
    let policy = json!({"failed_sleep": "300ms", "max_in_flight_records": 100, "commit_interval": "200ms"});
    let setup = Setup::groups([group("g", "t", &receiver.url(), &policy)]).embedded("partitions", json!(2));
    let mut site = Site::start(backend, setup).await;
    let (http, url) = (site.producer("t").http, site.proxy().topic_url(&format!("{}/batch", site.topic("t"))));
    let post = async |partition: u32, key: &str, count: usize| {
        let line = format!("{}\n", json!({"key": key, "value": "x", "partition": partition}));
        let request = http.post(&url).header("Content-Type", "application/x-ndjson").body(line.repeat(count));
        assert_eq!(request.send().await.unwrap().status(), 200);
    };
    post(0, "good", 5).await;
    post(0, "bad", 300).await;
    post(0, "good", 20).await;
    post(1, "bad", 500).await;
    receiver.until_done(505, Duration::from_secs(10)).await;
    let blocked = [("group", "g"), ("partition", "0")];
    wait::until("the metric of the blocked partition", Duration::from_secs(3), || async {
        (site.pusher.metric("mqgate_intake_blocked", &blocked).await == 1.0).then_some(())
    })
    .await;
    assert_eq!(site.pusher.metric("mqgate_intake_blocked", &[("partition", "1")]).await, 0.0);
    let shown = site.pusher.group("g").await;
    let of = |n: u64| shown["partitions"].as_array().unwrap().iter().find(|p| p["partition"] == n).unwrap().clone();
    assert_eq!(of(0)["live"]["blocked"], "max_in_flight_records", "{shown}");
    assert_eq!(of(0)["live"]["oldest_unfinished"]["offset"], 5, "{shown}");
    assert_eq!(of(0)["live"]["unfinished"], 100, "{shown}");
    assert_eq!(of(1)["lag"], 0, "the other partition goes on: {shown}");
    site.pusher.until_stored("g", Duration::from_secs(5)).await;
    site.pusher.kill();
    receiver.clear();
    receiver.script(|_| Answer::Status(200));
    site.pusher.restart().await;
    site.pusher.until_caught_up("g", Duration::from_secs(20)).await;
    let again = receiver.seen().iter().filter(|s| s.partition() == 1).count();
    assert_eq!(again, 0, "what was done and stored is not repeated");
    assert_eq!(receiver.count(), 320, "what was unfinished, each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_records_in_retry_are_two_hundred_for_as_long_as_they_fail() {
    let receiver = Receiver::start(|s| Answer::Status(if s.text() == "fail" { 500 } else { 200 })).await;
    let policy = json!({"failed_sleep": "1s", "worker_num": 64});
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).start().await;
    let producer = Producer::new(gateway.api, "t");
    let failing: Vec<(String, Bytes)> = (0..200).map(|n| (format!("k{n}"), Bytes::from_static(b"fail"))).collect();
    producer.batch(&failing, &json!({})).await;
    receiver.until_count(400, Duration::from_secs(8)).await;
    let count = || receiver.seen().iter().filter(|s| s.text() == "fail").count();
    let (before, started, resident) = (count(), Instant::now(), gateway.resident_bytes());
    let mut sent = 0;
    while started.elapsed() < Duration::from_secs(5) {
        producer.plain(Some(&format!("good{sent}")), &[], Bytes::from_static(b"fine")).await.unwrap();
        sent += 1;
        let pending = gateway.metric("mqgate_pending_retries", &[("group", "g")]).await;
        // Those whose attempt is under way are not waiting for it.
        assert!((136.0..=200.0).contains(&pending), "{pending} pending retries");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let rate = (count() - before) as f64 / started.elapsed().as_secs_f64();
    assert!((140.0..=205.0).contains(&rate), "{rate:.0} attempts a second of 200 records, each 1 s after the last");
    let fine = receiver.seen().iter().filter(|s| s.text() == "fine").count();
    assert!(fine + 5 >= sent, "healthy traffic goes on: {fine} of {sent}");
    let grown = gateway.resident_bytes().saturating_sub(resident);
    assert!(grown < 8 << 20, "{} KiB more in 5 s", grown >> 10);
    receiver.script(|_| Answer::Status(200));
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
    assert_eq!(gateway.metric("mqgate_pending_retries", &[("group", "g")]).await, 0.0);
}

/// C40: 24 partitions of records of 100 KB.
async fn a_backlog_on_many_partitions_stays_where_it_is_while_the_receiver_is_down(backend: Backend) {
    let mut receiver = Receiver::ok().await;
    receiver.close();
    let setup = Setup::groups([group("g", "t", &receiver.url(), &json!({"failed_sleep": "1s"}))]).embedded("partitions", json!(24));
    let site = Site::start(backend, setup.pusher("max_buffered_bytes", json!("32MiB"))).await;
    let (pusher, producer) = (&site.pusher, site.producer("t"));
    for start in (0..2_400).step_by(40) {
        let lines: Vec<(String, Bytes)> = (start..start + 40).map(|n| (format!("k{n}"), Bytes::from(vec![b'x'; 100_000]))).collect();
        producer.batch(&lines, &json!({})).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (resident, cpu) = (pusher.resident_bytes(), pusher.cpu());
    assert!(resident <= 150 << 20, "{} MiB with 240 MB behind a dead receiver", resident >> 20);
    for _ in 0..10 {
        let asked = Instant::now();
        let health = producer.http.get(format!("http://{}/healthz", pusher.admin)).send().await.unwrap();
        assert!(health.status() == 200 && asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(pusher.cpu() - cpu < Duration::from_millis(700), "{:?} of processor time in 2 s of waiting", pusher.cpu() - cpu);
    let later = pusher.resident_bytes();
    assert!(later <= resident + (8 << 20), "it grew from {} to {} MiB while nothing moved", resident >> 20, later >> 20);
    receiver.open().await;
    receiver.until_done(2_400, Duration::from_secs(30)).await;
    pusher.until_caught_up("g", Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_thousand_keys_make_no_series_and_a_scrape_stays_quick() {
    let receiver = Receiver::ok().await;
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({"worker_num": 64, "timeout": "30s"}))]).start().await;
    let producer = Producer::new(gateway.api, "t");
    producer.plain(Some("first"), &[], Bytes::from_static(b"x")).await.unwrap();
    receiver.until_done(1, Duration::from_secs(3)).await;
    gateway.until_served("g", 4).await;
    // Labels that come with the first delivery of each kind are there now.
    let names = async || {
        let text = gateway.metrics().await;
        let mut names: Vec<String> =
            text.lines().filter(|l| !l.starts_with('#')).map(|l| l.rsplit_once(' ').unwrap().0.to_owned()).collect();
        names.sort();
        names
    };
    let before = names().await;
    let batches = stream::iter(0..50).map(|b| {
        let producer = producer.clone();
        let lines: Vec<(String, Bytes)> = (0..1_000).map(|n| (format!("key-{b}-{n}"), Bytes::from_static(b"x"))).collect();
        async move { producer.batch(&lines, &json!({"content-type": format!("x/{b}"), "ce_type": format!("kind-{b}")})).await }
    });
    batches.buffer_unordered(4).collect::<Vec<_>>().await;
    gateway.until_caught_up("g", Duration::from_secs(40)).await;
    let resident = gateway.resident_bytes();
    let after = names().await;
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let started = Instant::now();
        gateway.metrics().await;
        quickest = quickest.min(started.elapsed());
    }
    assert!(quickest < Duration::from_secs(1), "a scrape takes {quickest:?}");
    let new: Vec<&String> = after.iter().filter(|name| !before.contains(name)).collect();
    assert!(new.is_empty(), "{new:?}");
    assert!(!after.iter().any(|name| name.contains("key-") || name.contains("kind-")), "no key and no client's word is a label");
    assert!(resident < 150 << 20, "{} MiB", resident >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_series_of_a_deleted_topic_vanish() {
    let receiver = Receiver::ok().await;
    let mut both = group("g", "stays", &receiver.url(), &json!({}));
    both["topics"] = json!(["stays", "goes"]);
    let gateway = Setup::groups([both]).start().await;
    gateway.create_topic("stays", 2).await;
    gateway.create_topic("goes", 200).await;
    let of_partitions = async |topic: &str| {
        let text = gateway.metrics().await;
        text.lines().filter(|l| l.contains(&format!("topic=\"{topic}\"")) && l.contains("partition=")).count()
    };
    wait::until("the series of 200 partitions", Duration::from_secs(10), || async { (of_partitions("goes").await >= 200).then_some(()) })
        .await;
    let stays =
        wait::until("the other topic", Duration::from_secs(5), || async { Some(of_partitions("stays").await).filter(|n| *n > 0) }).await;
    assert_eq!(gateway.delete_topic("goes").await, 204);
    wait::until("no series of a partition that is gone", Duration::from_secs(10), || async {
        (of_partitions("goes").await == 0).then_some(())
    })
    .await;
    assert_eq!(of_partitions("stays").await, stays);
}

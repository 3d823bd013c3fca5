//! One slow, refusing or stuck receiver beside a healthy one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use integration_tests::gateway::{Setup, group};
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use serde_json::json;

const MS: Duration = Duration::from_millis(1);

/// Posts to the topic in bursts, about 400 records a second for two seconds, and returns the 99th
/// percentile from POST to push at the target of the healthy group.
pub(crate) async fn p99(api: SocketAddr, healthy: &Receiver, target: &str, topic: &str) -> Duration {
    let producer = Producer::new(api, topic);
    let mut every = tokio::time::interval(25 * MS);
    let mut posted: HashMap<String, Instant> = HashMap::new();
    for burst in 0..80 {
        every.tick().await;
        let lines: Vec<(String, Bytes)> =
            (0..10).map(|n| (format!("k{}.{n}", burst % 5), Bytes::from(format!("{topic} {burst}.{n}")))).collect();
        posted.extend(lines.iter().map(|(_, body)| (String::from_utf8_lossy(body).into_owned(), Instant::now())));
        producer.batch(&lines, &json!({})).await;
    }
    let ours = |s: &integration_tests::request::Seen| s.target == target && posted.contains_key(s.text());
    let seen =
        healthy.until("all of the healthy group", Duration::from_secs(10), |seen| seen.iter().filter(|s| ours(s)).count() >= 800).await;
    let mut took: Vec<Duration> = seen.iter().filter(|s| ours(s)).map(|s| s.at - posted[s.text()]).collect();
    took.sort();
    eprintln!("{topic}: p50 {:?} p90 {:?} p99 {:?} max {:?}", took[400], took[720], took[792], took[799]);
    took[took.len() * 99 / 100]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_in_trouble_of_any_kind_leaves_another_its_latency() {
    let hanging = Receiver::start(|_| Answer::Hang).await;
    let mut refusing = Receiver::ok().await;
    refusing.close();
    // The last pair shares a host and a port, and differs in its path alone.
    let healthy = Receiver::start(|s| if s.target == "/bad" { Answer::Hang } else { Answer::Status(200).after(5 * MS) }).await;
    let at = |path: &str| format!("http://{}/{path}", healthy.addr);
    let patient = json!({"timeout": "30s", "connect_timeout": "1s", "worker_num": 16});
    let gateway = Setup::groups([
        group("alone", "alone", &at("alone"), &json!({})),
        group("beside-hanging", "hang", &at("one"), &json!({})),
        group("hanging", "hang", &hanging.url(), &patient),
        group("beside-refusing", "refuse", &at("two"), &json!({})),
        group("refusing", "refuse", &refusing.url(), &json!({"failed_sleep": "100ms"})),
        group("beside-neighbour", "host", &at("three"), &json!({})),
        group("neighbour", "host", &at("bad"), &patient),
    ])
    .start()
    .await;
    for topic in ["alone", "hang", "refuse", "host"] {
        gateway.create_topic(topic, 4).await;
    }
    let alone = p99(gateway.api, &healthy, "/alone", "alone").await;
    // On a machine that is busy with other things the healthy one is slow by itself.
    let bound = (100 * MS).max(3 * alone);
    for (group, target, topic) in
        [("beside-hanging", "/one", "hang"), ("beside-refusing", "/two", "refuse"), ("beside-neighbour", "/three", "host")]
    {
        let beside = p99(gateway.api, &healthy, target, topic).await;
        assert!(beside < bound, "{group}: p99 {beside:?}, alone {alone:?}");
        gateway.until_caught_up(group, Duration::from_secs(3)).await;
    }
    assert_eq!(hanging.count(), 16, "its own slots and no more");
    assert_eq!(healthy.seen().iter().filter(|s| s.target == "/bad").count(), 16, "its own slots and no more");
    assert!(gateway.open_files() < 200, "{} open files", gateway.open_files());
    assert!(gateway.resident_bytes() < 120 << 20, "{} MiB", gateway.resident_bytes() >> 20);
}

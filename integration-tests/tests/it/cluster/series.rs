//! Metrics whose number clients cannot raise, and that go with their partitions (C74); a slow receiver
//! beside a quick one (C58).

use futures_util::{StreamExt, stream};
use integration_tests::cluster::TAKEN_OVER;
use integration_tests::raw;
use integration_tests::receiver::Answer;
use serde_json::json;

use super::*;
use crate::sharing::p99;

async fn series(gateway: &Gateway, having: &str) -> usize {
    gateway.metrics().await.lines().filter(|line| !line.starts_with('#') && line.contains(having)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_proxy_cannot_make_metric_series() {
    let scene = Scene::new(Cluster::shared().await, 1, Receiver::ok().await, json!({})).await;
    let http = scene.producer().http;
    let post = async |topic: &str, kind: &str, key: &str| {
        let request = http.post(scene.proxy.topic_url(topic)).header("Content-Type", kind).header("X-Kmq-Partition-Key", key);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!((post(&scene.topic, "a/b", "k").await, post("x-none", "a/b", "k").await), (200, 404));
    raw::exchange(scene.proxy.api, b"M /p HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n").await;
    let before = series(&scene.proxy, "").await;
    let resident = scene.proxy.resident_bytes();
    let posts = stream::iter(0..2_000).map(|n| {
        let (post, topic) = (&post, if n % 4 > 0 { scene.topic.clone() } else { format!("x-{n}") });
        async move { post(&topic, &format!("x/{n}"), &format!("k{n}")).await }
    });
    let statuses: Vec<u16> = posts.buffer_unordered(64).collect().await;
    assert!(statuses.iter().all(|status| [200, 404].contains(status)), "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1_500);
    for n in 0..100 {
        let request = format!("M{n} /p{n}?q={n} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n");
        raw::exchange(scene.proxy.api, request.as_bytes()).await;
    }
    let after = series(&scene.proxy, "").await;
    assert!(after <= before + 2, "{before} series before, {after} after");
    assert_eq!(series(&scene.proxy, "x-").await, 0, "no topic that a client made up");
    let grown = scene.proxy.resident_bytes().saturating_sub(resident);
    assert!(grown < 16 << 20, "{} MiB more", grown >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn series_of_a_partition_vanish_with_it() {
    const GROUPS: usize = 10;
    const PARTITIONS: usize = GROUPS * 100;
    let (cluster, receiver) = (Cluster::shared().await, Receiver::ok().await);
    let topic = cluster.topic("many", 100).await;
    let groups = || (0..GROUPS).map(|n| group(&format!("g{n}"), &topic, &receiver.url(), &json!({})));
    let a = cluster.pusher("a", groups()).start().await;
    let of_partitions = || series(&a, "mqgate_lag_records{");
    let until = async |count: usize| {
        wait::until(&format!("{count} series of partitions"), 2 * TAKEN_OVER, || async { (of_partitions().await == count).then_some(()) })
            .await;
    };
    until(PARTITIONS).await;
    let other_series = series(&a, "").await;
    let resident = a.resident_bytes();
    let mut b = cluster.pusher("b", groups()).start().await;
    until(PARTITIONS / 2).await;
    b.terminate(Duration::from_secs(10)).await;
    until(PARTITIONS).await;
    let now = series(&a, "").await;
    assert!(now <= other_series + 2 * GROUPS, "{other_series} series at first, {now} now");
    let scraped = Instant::now();
    a.metrics().await;
    assert!(scraped.elapsed() < Duration::from_secs(1), "{:?}", scraped.elapsed());
    let grown = a.resident_bytes().saturating_sub(resident);
    assert!(grown < 16 << 20, "{} MiB more after they left and came back", grown >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_in_trouble_leaves_another_its_latency_on_kafka() {
    let hanging = Receiver::start(|_| Answer::Hang).await;
    let mut refusing = Receiver::ok().await;
    refusing.close();
    let healthy = Receiver::start(|s| if s.target == "/bad" { Answer::Hang } else { Answer::Status(200).after(5 * MS) }).await;
    let at = |path: &str| format!("http://{}/{path}", healthy.addr);
    let cluster = Cluster::shared().await;
    let (alone, shared) = (cluster.topic("alone", 4).await, cluster.topic("shared", 4).await);
    let proxy = cluster.proxy().start().await;
    let patient = json!({"timeout": "30s", "connect_timeout": "1s", "worker_num": 16});
    let well = [group("alone", &alone, &at("alone"), &json!({})), group("healthy", &shared, &at("one"), &json!({}))];
    let ill = [
        group("hanging", &shared, &hanging.url(), &patient),
        group("neighbour", &shared, &at("bad"), &patient),
        group("refusing", &shared, &refusing.url(), &json!({"failed_sleep": "100ms"})),
    ];
    let setup = cluster.pusher("a", well.iter().chain(&ill).cloned()).pusher("drain_timeout", json!("1s"));
    let mut pusher = setup.start().await;
    let undisturbed = p99(proxy.api, &healthy, "/alone", &alone).await;
    let beside = p99(proxy.api, &healthy, "/one", &shared).await;
    // On a machine that is busy with other things the healthy one is slow by itself.
    assert!(beside < (100 * MS).max(3 * undisturbed), "p99 {beside:?}, alone {undisturbed:?}");
    cluster.until_cursors_at_end("healthy", &shared, Duration::from_secs(5)).await;
    assert_eq!(hanging.count(), 16, "its own slots and no more");
    assert_eq!(healthy.seen().iter().filter(|s| s.target == "/bad").count(), 16, "its own slots and no more");
    assert!(pusher.open_files() < 250, "{} open files", pusher.open_files());
    assert!(pusher.resident_bytes() < 150 << 20, "{} MiB", pusher.resident_bytes() >> 20);
    // Without those groups their slots, and what held them, are free.
    pusher.configure(|setup| setup.groups = well.to_vec());
    pusher.reload();
    let open = |seen: &[Seen]| seen.iter().filter(|s| s.ended().is_none()).count();
    hanging.until("its attempts to end", Duration::from_secs(10), |seen| open(seen) == 0).await;
    healthy.until("its neighbour's attempts to end", Duration::from_secs(10), |seen| open(seen) == 0).await;
    pusher.until_metric("mqgate_in_flight_records", &[], 0.0, Duration::from_secs(5)).await;
    assert_eq!(hanging.count(), 16, "nothing more goes there");
}

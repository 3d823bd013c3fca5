//! Metrics whose number clients cannot raise, and that go with their partitions (C74); a slow receiver
//! beside a quick one (C58).

use futures_util::{StreamExt, stream};
use integration_tests::cluster::TAKEN_OVER;
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
    let before = series(&scene.proxy, "").await;
    let posts = stream::iter(0..500).map(|n| {
        let (post, topic) = (&post, if n % 2 == 0 { scene.topic.clone() } else { format!("x-{n}") });
        async move { post(&topic, &format!("x/{n}"), &format!("k{n}")).await }
    });
    let statuses: Vec<u16> = posts.buffer_unordered(64).collect().await;
    assert!(statuses.iter().all(|status| [200, 404].contains(status)), "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 250);
    let after = series(&scene.proxy, "").await;
    assert!(after <= before + 2, "{before} series before, {after} after");
    assert_eq!(series(&scene.proxy, "x-").await, 0, "no topic that a client made up");
}

#[tokio::test(flavor = "multi_thread")]
async fn series_of_a_partition_vanish_with_it() {
    const PARTITIONS: usize = 100;
    let scene = Scene::new(Cluster::shared().await, PARTITIONS as i32, Receiver::ok().await, json!({})).await;
    let a = scene.pusher("a").await;
    let of_partitions = || series(&a, "mqgate_lag_records{");
    let until = async |count: usize| {
        wait::until(&format!("{count} series of partitions"), TAKEN_OVER, || async { (of_partitions().await == count).then_some(()) })
            .await;
    };
    until(PARTITIONS).await;
    let other_series = series(&a, "").await;
    let mut b = scene.pusher("b").await;
    until(PARTITIONS / 2).await;
    b.terminate(Duration::from_secs(10)).await;
    until(PARTITIONS).await;
    let now = series(&a, "").await;
    assert!(now <= other_series + 5, "{other_series} series at first, {now} now");
    let scraped = Instant::now();
    a.metrics().await;
    assert!(scraped.elapsed() < Duration::from_secs(1), "{:?}", scraped.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_in_trouble_leaves_another_its_latency_on_kafka() {
    let hanging = Receiver::start(|_| Answer::Hang).await;
    let healthy = Receiver::start(|s| if s.target == "/bad" { Answer::Hang } else { Answer::Status(200).after(5 * MS) }).await;
    let at = |path: &str| format!("http://{}/{path}", healthy.addr);
    let cluster = Cluster::shared().await;
    let (alone, shared) = (cluster.topic("alone", 4).await, cluster.topic("shared", 4).await);
    let proxy = cluster.proxy().start().await;
    let patient = json!({"timeout": "30s", "connect_timeout": "1s", "worker_num": 16});
    let groups = [
        group("alone", &alone, &at("alone"), &json!({})),
        group("healthy", &shared, &at("one"), &json!({})),
        group("hanging", &shared, &hanging.url(), &patient),
        group("neighbour", &shared, &at("bad"), &patient),
    ];
    let pusher = cluster.pusher("a", groups).start().await;
    let undisturbed = p99(proxy.api, &healthy, "/alone", &alone).await;
    let beside = p99(proxy.api, &healthy, "/one", &shared).await;
    // On a machine that is busy with other things the healthy one is slow by itself.
    assert!(beside < (100 * MS).max(3 * undisturbed), "p99 {beside:?}, alone {undisturbed:?}");
    cluster.until_cursors_at_end("healthy", &shared, Duration::from_secs(5)).await;
    assert_eq!(hanging.count(), 16, "its own slots and no more");
    assert_eq!(healthy.seen().iter().filter(|s| s.target == "/bad").count(), 16, "its own slots and no more");
    assert!(pusher.open_files() < 250, "{} open files", pusher.open_files());
}

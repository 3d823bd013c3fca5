//! What a record can be: without a key, without a value, too large (C02, C03, C08).

use std::collections::BTreeSet;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use integration_tests::producer::Refused;
use integration_tests::receiver::Answer;
use serde_json::json;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn absent_empty_and_literal_keys_are_three_things_in_kafka() {
    const EACH: usize = 100;
    let receiver = Receiver::start(|_| Answer::Status(200).after(5 * MS)).await;
    let scene = Scene::new(Cluster::shared().await, 6, receiver, json!({})).await;
    let _pusher = scene.pusher("a").await;
    let producer = scene.producer();
    let mut acked = Vec::new();
    for n in 0..EACH {
        for key in [None, Some(""), Some("null")] {
            acked.push(producer.plain(key, &[], n.to_string().into()).await.unwrap());
        }
    }
    scene.cluster.produce(&scene.topic, &[(None, Some("native")); EACH]).await;
    // JSON's null, and no field at all, are no key either.
    let lines = "{\"key\":null,\"value\":\"x\"}\n{\"value\":\"x\"}\n".repeat(EACH / 2);
    let url = scene.proxy.topic_url(&format!("{}/batch", scene.topic));
    let batch = producer.http.post(url).header("Content-Type", "application/x-ndjson").body(lines);
    assert_eq!(batch.send().await.unwrap().status(), 200);
    let seen = scene.receiver.until_done(5 * EACH, Duration::from_secs(20)).await;
    judge(&acked, &seen).assert_nothing_lost_or_reordered();
    scene.cluster.until_cursors_at_end("g", &scene.topic, Duration::from_secs(5)).await;
    let partitions = |key: Option<&str>| seen.iter().filter(|s| s.key() == key).map(Seen::partition).collect::<BTreeSet<_>>().len();
    assert!(partitions(None) > 1, "records without a key spread");
    assert_eq!((partitions(Some("")), partitions(Some("null"))), (1, 1));
    let count = |key: Option<&str>| seen.iter().filter(|s| s.key() == key).count();
    assert_eq!((count(None), count(Some("")), count(Some("null"))), (3 * EACH, EACH, EACH));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_tombstone_is_pushed_as_one_and_holds_nothing_up() {
    let scene = Scene::new(Cluster::shared().await, 1, Receiver::ok().await, json!({"retry_times": 3, "bypass_failed": true})).await;
    let k1 = Some("k1");
    scene.cluster.produce(&scene.topic, &[(k1, Some("a")), (k1, None), (k1, Some("")), (k1, Some("b"))]).await;
    let proxy = &scene.proxy;
    let line = "{\"key\":\"k1\",\"value\":null}\n{\"key\":\"k1\",\"value\":\"c\"}\n";
    let post =
        scene.producer().http.post(proxy.topic_url(&format!("{}/batch", scene.topic))).header("Content-Type", "application/x-ndjson");
    assert_eq!(post.body(line).send().await.unwrap().status(), 200);
    let pusher = scene.pusher("a").await;
    let seen = scene.receiver.until_done(6, Duration::from_secs(10)).await;
    let got: Vec<(&str, bool)> = seen.iter().map(|s| (s.text(), s.header("X-Kmq-Tombstone").is_some())).collect();
    assert_eq!(got, [("a", false), ("", true), ("", false), ("b", false), ("", true), ("c", false)]);
    scene.cluster.until_cursors_at_end("g", &scene.topic, Duration::from_secs(5)).await;
    assert_eq!(pusher.metric("mqgate_bypassed_total", &[]).await, 0.0);
}

/// Too large for the topic, which the proxy does not know, and too large for the proxy.
#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_record_is_refused_by_itself_and_fails_none_of_its_neighbours() {
    const LIMIT: usize = 100_000;
    let cluster = Cluster::shared().await;
    let topic = integration_tests::cluster::fresh("limit");
    cluster.kafka.create_topic(&topic, 1, &[("max.message.bytes", &LIMIT.to_string())]).await;
    let proxy = cluster.proxy().proxy("max_message_bytes", json!(200_000)).start().await;
    let producer = Producer::new(proxy.api, &topic);
    let post = |size: usize| producer.plain(Some("k"), &[], vec![b'x'; size].into());
    // In one burst, so that they share batches.
    let mut sizes = vec![4_096; 50];
    sizes.insert(25, 150_000);
    let answers = join_all(sizes.iter().map(|size| post(*size))).await;
    for (size, answer) in sizes.iter().zip(answers) {
        match answer {
            Ok(_) => assert_eq!(*size, 4_096),
            Err(refused) => {
                assert_eq!((*size, refused.status), (150_000, Some(413)), "{refused:?}");
                assert!(refused.body.contains(&topic) || refused.body.contains("topic"), "it says whose limit: {}", refused.body);
            }
        }
    }
    // Near the limit each has a definite answer, and what is refused is not there.
    let near = [LIMIT - 2_000, LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 2_000];
    let started = Instant::now();
    let answers: Vec<Result<Acked, Refused>> = stream::iter(near).then(post).collect().await;
    assert!(answers[0].is_ok() && answers[4].is_err(), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.as_ref().map_or_else(|refused| refused.status == Some(413), |_| true)), "{answers:?}");
    let filler = "h".repeat(2_000);
    let with_headers = producer.plain(Some("k"), &[("X-Kmq-Header-filler", &filler)], vec![b'x'; LIMIT - 1].into()).await;
    assert_eq!(with_headers.unwrap_err().status, Some(413));
    let large = post(200_001).await.unwrap_err();
    assert!(large.status == Some(413) && large.body.contains("200000"), "{large:?}");
    assert!(started.elapsed() < Duration::from_secs(5), "none of them by a timeout: {:?}", started.elapsed());
    let written = 50 + answers.iter().filter(|answer| answer.is_ok()).count() as u64;
    assert_eq!(cluster.ends(&topic).await[&0], written);
}

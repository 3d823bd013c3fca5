//! Kafka stopped and started, under a proxy and a pusher that go on.

use std::sync::Arc;

use integration_tests::kafka::{Kafka, Version};
use integration_tests::producer::Refused;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;

const PRODUCE_TIMEOUT: Duration = Duration::from_secs(3);
const AWAY: Duration = Duration::from_secs(30);

/// A POST every 200 ms; what was answered, and after how long.
async fn post_until(producer: Producer, stop: CancellationToken) -> Vec<(Result<Acked, Refused>, Duration)> {
    let mut answers = Vec::new();
    for n in 0.. {
        if stop.run_until_cancelled(tokio::time::sleep(200 * MS)).await.is_none() {
            break;
        }
        let posted = Instant::now();
        let answer = producer.plain(Some(&format!("k{}", n % 20)), &[], format!("{n}").into()).await;
        answers.push((answer, posted.elapsed()));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_kafka_is_said_in_time_and_its_return_needs_no_restart() {
    let mut cluster = Cluster::on(Arc::new(Kafka::start(Version::ThreeWithZooKeeper).await));
    let brokers = cluster.kafka.brokers();
    let topic = cluster.topic("away", 3).await;
    let receiver = Receiver::ok().await;
    let mut proxy = cluster.proxy().proxy("produce_timeout", json!("3s")).start().await;
    let group = group("g", &topic, &receiver.url(), &json!({"commit_interval": "100ms"}));
    let mut pusher = cluster.pusher("a", [group]).start().await;
    let stop = CancellationToken::new();
    let posting = tokio::spawn(post_until(Producer::new(proxy.api, &topic), stop.clone()));
    receiver.until_count(10, Duration::from_secs(10)).await;
    cluster.own_kafka().stop().await;
    let stopped = Instant::now();
    proxy.until_missing(&brokers, Duration::from_secs(10)).await;
    pusher.until_missing(&brokers, Duration::from_secs(10)).await;
    tokio::time::sleep(AWAY.saturating_sub(stopped.elapsed())).await;
    cluster.own_kafka().restart().await;
    let back = Instant::now();
    let count = receiver.count();
    receiver.until_count(count + 10, Duration::from_secs(30)).await;
    eprintln!("delivered again {:?} after Kafka was back", back.elapsed());
    proxy.until_ready().await;
    pusher.until_ready().await;
    stop.cancel();
    let answers = posting.await.unwrap();
    let latest = PRODUCE_TIMEOUT.mul_f64(1.1) + 300 * MS;
    let mut refused = 0;
    for (answer, took) in &answers {
        assert!(*took <= latest, "answered after {took:?}: {answer:?}");
        if let Err(answer) = answer {
            assert!(matches!(answer.status, Some(503 | 504)), "{answer:?}");
            assert!(answer.status == Some(504) || answer.retry_after.is_some(), "{answer:?}");
            refused += 1;
        }
    }
    assert!(refused >= 3, "{refused} refused in {AWAY:?}");
    let acked: Vec<Acked> = answers.into_iter().filter_map(|(answer, _)| answer.ok()).collect();
    let all = |seen: &[Seen]| judge(&acked, seen).lost.is_empty();
    receiver.until("all that was acknowledged", Duration::from_secs(20), all).await;
    judge(&acked, &receiver.seen()).assert_nothing_lost_or_reordered();
    cluster.until_cursors_at_end("g", &topic, Duration::from_secs(10)).await;
    assert!(proxy.runs() && pusher.runs());
}

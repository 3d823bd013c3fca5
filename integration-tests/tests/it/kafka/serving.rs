//! `mqgate proxy` on a Kafka that has trouble.

use std::collections::BTreeSet;
use std::time::Instant;

use common::ids::{Epoch, Offset, Partition};
use integration_tests::gateway::{Gateway, Role, Setup};
use integration_tests::kafka::Setup as KafkaSetup;
use integration_tests::producer::Producer;
use integration_tests::relay::Flow;
use serde_json::json;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::posting::Posting;
use super::*;

pub(super) fn proxy(kafka: &Kafka) -> Setup {
    let queue = json!({"kafka": {"brokers": [kafka.brokers()]}});
    Setup { role: Role::Proxy, ..Setup::default() }.field("queue", queue)
}

/// Every value of the topic's one partition, in order.
async fn values(kafka: &Kafka, topic: &Topic) -> Vec<String> {
    let queue = queue(kafka);
    // A broker that was away has to be the leader again.
    let known = wait::until("its end is known", PATIENCE, async || queue.watermarks(topic, Partition(0)).await.ok());
    let end = known.await.end.0;
    let mut reader = queue.open(topic, Partition(0), Offset(0), Epoch(1)).await.unwrap();
    let records = if end > 0 { read_to(&mut *reader, end).await } else { Vec::new() };
    records.into_iter().map(|record| String::from_utf8(record.payload.value.unwrap().to_vec()).unwrap()).collect()
}

/// A script of the kind that looks at nothing but the body.
#[tokio::test]
async fn what_a_script_was_told_is_what_is_in_the_topic() {
    let kafka = Kafka::shared(Version::Four).await;
    let gateway = proxy(&kafka).start().await;
    let topic = fresh("script");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    let mut lines: Vec<String> = (0..120).map(|n| format!("line {n}")).collect();
    lines[30] = "a stray \" quote".into();
    lines[60] = "100 % of {\"it\"".into();
    lines[90] = "x".repeat(2_000_000);
    // What a loop over a file makes of a blank line at its end.
    lines.push(String::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let script = "while IFS= read -r line; do printf '%s' \"$line\" | curl -s -w '\\n' --data-binary @- \"$0\"; done < \"$1\"";
    let output = Command::new("bash").args(["-c", script, &gateway.topic_url(topic.as_str())]).arg(&file).output().await.unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let told: Vec<serde_json::Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), lines.len());
    let accepted: Vec<&String> = lines.iter().zip(&told).filter(|(_, told)| told["offset"].is_number()).map(|(line, _)| line).collect();
    let refused: Vec<_> = told.iter().filter(|told| told["offset"].is_null()).map(|told| (&told["status"], &told["code"])).collect();
    assert_eq!(refused, [(&json!(413), &json!("too_large"))]);
    assert_eq!(values(&kafka, &topic).await.iter().collect::<Vec<_>>(), accepted);
}

/// C19, C24: the broker is restarted by SIGTERM and by SIGKILL, and one batch loses its answer.
#[tokio::test]
async fn over_restarts_and_a_failed_batch_a_key_keeps_its_order_and_all_else_may_be_repeated() {
    let produce_timeout = Duration::from_secs(3);
    let mut kafka = Kafka::start_with(Version::Four, KafkaSetup { relayed: true, ..KafkaSetup::default() }).await;
    let queue = json!({"kafka": {"brokers": [kafka.relayed_brokers()]}});
    let setup = Setup { role: Role::Proxy, ..Setup::default() }.field("queue", queue);
    let gateway = setup.proxy("produce_timeout", json!("3s")).start().await;
    let topics = [fresh("restarts"), fresh("pipelined")];
    for topic in &topics {
        kafka.create_topic(topic.as_str(), 1, &[]).await;
    }
    let postings =
        [Posting::one_by_one(Producer::new(gateway.api, topics[0].as_str()), "k"), Posting::pipelined(gateway.api, &topics[1], "p", 20)];
    for stop in [true, false] {
        for posting in &postings {
            posting.accepted_after(Instant::now()).await;
        }
        if stop {
            kafka.stop().await;
        } else {
            kafka.kill();
        }
        for posting in &postings {
            posting.until_refused().await;
        }
        gateway.until_missing(&kafka.relayed_brokers(), Duration::from_secs(10)).await;
        kafka.restart().await;
        let back = Instant::now();
        for posting in &postings {
            let after = posting.accepted_after(back).await.duration_since(back);
            println!("accepted again after {after:?}");
            assert!(after < Duration::from_secs(10), "{after:?}");
        }
    }
    // What is written now is written, and the producer is not told so.
    kafka.relay().to_client(Flow::Hold);
    tokio::time::sleep(Duration::from_millis(300)).await;
    kafka.relay().reset();
    kafka.relay().to_client(Flow::Pass);
    for posting in &postings {
        posting.accepted_after(Instant::now()).await;
    }
    for (posting, topic) in postings.into_iter().zip(&topics) {
        let answers = posting.end().await;
        println!("{topic}: {} accepted, {} refused", answers.accepted.len(), answers.refused.len());
        answers.assert_honest(&values(&kafka, topic).await, produce_timeout);
    }
}

/// How long the slowest answer of the admin port took, asked every 50 ms.
async fn slowest_health(gateway: &Gateway, stop: CancellationToken) -> Duration {
    let (url, client) = (format!("http://{}/healthz", gateway.admin), reqwest::Client::new());
    let mut slowest = Duration::ZERO;
    while !stop.is_cancelled() {
        let began = Instant::now();
        assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
        slowest = slowest.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    slowest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_frozen_broker_cannot_take_is_refused_at_once_and_health_is_answered() {
    const PLACES: usize = 300;
    let kafka = Kafka::start(Version::Four).await;
    let setup = proxy(&kafka).proxy("produce_timeout", json!("3s")).proxy("max_in_flight_requests", json!(PLACES));
    let gateway = setup.start().await;
    let topic = fresh("frozen");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    let producer = Producer::new(gateway.api, topic.as_str());
    producer.plain(None, &[], "first".into()).await.unwrap();
    let resident = gateway.resident_bytes();
    kafka.freeze();
    let stop = CancellationToken::new();
    let posts = (0..3 * PLACES).map(|n| {
        let producer = producer.clone();
        async move {
            // Spread over two seconds.
            tokio::time::sleep(Duration::from_millis(7) * u32::try_from(n / 3).unwrap()).await;
            let began = Instant::now();
            (n.to_string(), producer.plain(None, &[], n.to_string().into()).await, began.elapsed())
        }
    });
    let all = async {
        let answers = futures_util::future::join_all(posts).await;
        stop.cancel();
        answers
    };
    let (answers, slowest) = tokio::join!(all, slowest_health(&gateway, stop.clone()));
    let mut at_once = 0;
    for (_, answer, took) in &answers {
        let status = answer.as_ref().map_or_else(|refused| refused.status.unwrap(), |_| 200);
        assert!(matches!(status, 503 | 504), "{status}");
        assert!(*took < Duration::from_millis(3_600), "{status} after {took:?}");
        let told_when = answer.as_ref().is_err_and(|refused| refused.retry_after.is_some());
        at_once += usize::from(status == 503 && told_when && *took < Duration::from_millis(500));
    }
    println!("{at_once} of {} were refused at once, the slowest health answer took {slowest:?}", answers.len());
    assert!(at_once >= PLACES, "{at_once}");
    assert!(slowest < Duration::from_millis(100), "{slowest:?}");
    let grown = gateway.resident_bytes().saturating_sub(resident);
    assert!(grown < 40 << 20, "{} MiB more for {PLACES} messages", grown >> 20);
    kafka.thaw();
    let last = async || producer.plain(None, &[], "last".into()).await.ok();
    wait::until("messages are accepted", Duration::from_secs(10), last).await;
    let stored: BTreeSet<String> = values(&kafka, &topic).await.into_iter().collect();
    assert!(stored.contains("first") && stored.contains("last"));
    assert!(answers.iter().filter(|(_, answer, _)| answer.is_ok()).all(|(body, ..)| stored.contains(body)));
}

//! `mqgate proxy` on a Kafka that has trouble.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use common::ids::{Epoch, Offset, Partition};
use integration_tests::gateway::{Gateway, Role, Setup};
use integration_tests::producer::Producer;
use serde_json::json;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::*;

fn proxy(kafka: &Kafka) -> Setup {
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

/// Each status as often as it came, and the bodies that were answered 200.
#[derive(Default)]
struct Answers {
    accepted: BTreeSet<String>,
    refused: Vec<(u16, Duration, Option<String>)>,
    at: Option<Instant>,
}

/// One message after the other, until it is stopped.
struct Posting {
    answers: Arc<Mutex<Answers>>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Posting {
    fn start(producer: Producer, key: &'static str) -> Self {
        let (answers, stop) = (Arc::<Mutex<Answers>>::default(), CancellationToken::new());
        let (tell, stopped) = (Arc::clone(&answers), stop.clone());
        let task = tokio::spawn(async move {
            let mut pace = tokio::time::interval(Duration::from_millis(5));
            for n in 0.. {
                pace.tick().await;
                if stopped.is_cancelled() {
                    return;
                }
                let (body, began) = (format!("{key} {n:06}"), Instant::now());
                let answer = producer.plain(Some(key), &[], body.clone().into()).await;
                let mut answers = tell.lock().unwrap();
                match answer {
                    Ok(_) => {
                        answers.accepted.insert(body);
                        answers.at = Some(Instant::now());
                    }
                    Err(refused) => answers.refused.push((refused.status.unwrap(), began.elapsed(), refused.retry_after)),
                }
            }
        });
        Self { answers, stop, task }
    }

    /// When the first message after that moment was accepted.
    async fn accepted_after(&self, moment: Instant) -> Instant {
        let accepted = async || self.answers.lock().unwrap().at.filter(|at| *at > moment);
        wait::until("messages are accepted", Duration::from_secs(30), accepted).await
    }

    async fn until_refused(&self) {
        let before = self.answers.lock().unwrap().refused.len();
        let refused = async || (self.answers.lock().unwrap().refused.len() > before).then_some(());
        wait::until("messages are refused", Duration::from_secs(30), refused).await;
    }

    async fn end(self) -> Answers {
        self.stop.cancel();
        self.task.await.unwrap();
        std::mem::take(&mut *self.answers.lock().unwrap())
    }
}

/// Restarted by SIGTERM and by SIGKILL.
#[tokio::test]
async fn while_the_broker_is_restarted_messages_are_accepted_or_may_be_repeated() {
    let mut kafka = Kafka::start(Version::Four).await;
    let gateway = proxy(&kafka).proxy("produce_timeout", json!("3s")).start().await;
    let topic = fresh("restarts");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    let posting = Posting::start(Producer::new(gateway.api, topic.as_str()), "k");
    for stop in [true, false] {
        posting.accepted_after(Instant::now()).await;
        if stop {
            kafka.stop().await;
        } else {
            kafka.kill();
        }
        posting.until_refused().await;
        gateway.until_missing(&kafka.brokers(), Duration::from_secs(10)).await;
        kafka.restart().await;
        let back = Instant::now();
        let after = posting.accepted_after(back).await.duration_since(back);
        println!("accepted again after {after:?}");
        assert!(after < Duration::from_secs(10), "{after:?}");
    }
    let answers = posting.end().await;
    for (status, took, retry_after) in &answers.refused {
        assert!(matches!(status, 503 | 504), "{status}");
        assert!(*took < Duration::from_millis(3_600), "{status} after {took:?}");
        assert!(*status == 504 || retry_after.as_ref().is_some_and(|seconds| seconds.parse::<u64>().unwrap() >= 1));
    }
    let stored = values(&kafka, &topic).await;
    assert!(stored.is_sorted(), "one key keeps its order");
    let there: BTreeSet<String> = stored.iter().cloned().collect();
    assert_eq!(there.len(), stored.len(), "nothing is there twice");
    assert!(answers.accepted.is_subset(&there), "something accepted is missing");
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
        at_once += usize::from(status == 503 && *took < Duration::from_millis(500));
    }
    println!("{at_once} of {} were refused at once, the slowest health answer took {slowest:?}", answers.len());
    assert!(at_once >= PLACES, "{at_once}");
    assert!(slowest < Duration::from_millis(100), "{slowest:?}");
    kafka.thaw();
    let last = async || producer.plain(None, &[], "last".into()).await.ok();
    wait::until("messages are accepted", Duration::from_secs(10), last).await;
    let stored: BTreeSet<String> = values(&kafka, &topic).await.into_iter().collect();
    assert!(stored.contains("first") && stored.contains("last"));
}

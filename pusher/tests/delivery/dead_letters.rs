//! Where a record goes that is given up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use common::ids::{Offset, Partition, Topic};
use common::queue::{NotWritten, Produce, ProduceError, Produced};
use common::record::Message;
use common::{config::Serializer, record::Payload};
use engine::event::{Event, Failure, GivenUp};
use engine::ports::Processor;
use pusher::decode::Delivered;
use pusher::delivery::Tls;
use tokio::time::Instant;

use super::bench::{Bench, Burial, decoded, event, group, payload};
use super::receiver::{Receiver, Step, ok, send};

/// Answers as told, then accepts whatever is no larger than its limit.
struct Shelf {
    limit_bytes: usize,
    failures: Mutex<VecDeque<ProduceError>>,
    written: Mutex<Vec<Message>>,
}

impl Shelf {
    fn new(limit_bytes: usize, failures: impl IntoIterator<Item = ProduceError>) -> Arc<Self> {
        Arc::new(Self { limit_bytes, failures: Mutex::new(failures.into_iter().collect()), written: Mutex::default() })
    }

    fn answer(&self, message: Message) -> Result<Produced, ProduceError> {
        if let Some(failure) = self.failures.lock().unwrap().pop_front() {
            return Err(failure);
        }
        let size = message.payload.size_bytes();
        if size > self.limit_bytes {
            return Err(ProduceError::TooLarge { size, limit: self.limit_bytes });
        }
        self.written.lock().unwrap().push(message);
        Ok(Produced { partition: Partition(0), offset: Offset(0), timestamp: 0 })
    }

    fn only(&self) -> Message {
        let [message] = &self.written.lock().unwrap()[..] else { panic!("one dead letter") };
        message.clone()
    }
}

impl Burial for Shelf {
    fn produce(&self, message: Message) -> Produce {
        Produce::answered(self.answer(message))
    }
}

fn burying(shelf: &Arc<Shelf>, url: &str) -> Bench {
    let mut group = group(url);
    group.dead_letter_topic = Some(Topic::new("dead").unwrap());
    Bench::with(&group, Arc::clone(shelf), &Tls::trusting([]).unwrap())
}

fn given_up(failure: Failure) -> GivenUp {
    let now = Instant::now();
    GivenUp { failure, attempts: 4, first_attempt: now, last_attempt: now }
}

fn refused() -> GivenUp {
    given_up(Failure { reason: "status_4xx", code: Some(404), detail: "404 Not Found".into() })
}

fn text<'a>(payload: &'a Payload, name: &str) -> Option<&'a str> {
    payload.header(name).map(|value| std::str::from_utf8(value).unwrap())
}

async fn bury(shelf: &Arc<Shelf>, event: &Event<Delivered>) -> Result<(), String> {
    burying(shelf, "http://127.0.0.1:1/").delivery.bypass(event, &refused()).await
}

#[tokio::test]
async fn a_dead_letter_is_the_record_and_says_why() {
    let shelf = Shelf::new(1 << 20, []);
    let stored = payload(Some("k"), Some(b"v"), &[("ce_type", b"x"), ("mqgate-dlq-offset", b"of an earlier life")]);
    bury(&shelf, &decoded(Serializer::Raw, stored)).await.unwrap();
    let Message { topic, partition, payload, .. } = shelf.only();
    assert_eq!((topic.as_str(), partition), ("dead", None));
    assert_eq!((payload.key.as_deref(), payload.value.as_deref()), (Some(&b"k"[..]), Some(&b"v"[..])));
    let expected = [
        ("ce_type", "x"),
        ("mqgate-dlq-group", "g"),
        ("mqgate-dlq-topic", "t"),
        ("mqgate-dlq-partition", "3"),
        ("mqgate-dlq-offset", "81"),
        ("mqgate-dlq-timestamp", "1700000000123"),
        ("mqgate-dlq-reason", "status_4xx: 404 Not Found"),
        ("mqgate-dlq-status", "404"),
        ("mqgate-dlq-attempts", "4"),
    ];
    for (name, value) in expected {
        assert_eq!(text(&payload, name), Some(value), "{name}");
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    for name in ["mqgate-dlq-first-attempt", "mqgate-dlq-last-attempt"] {
        let at: u128 = text(&payload, name).unwrap().parse().unwrap();
        assert!((now - 10_000..=now).contains(&at), "{name}: {at}");
    }
    assert_eq!(payload.headers.len(), 11);
}

#[tokio::test]
async fn a_tombstone_is_buried_as_one() {
    let shelf = Shelf::new(1 << 20, []);
    bury(&shelf, &decoded(Serializer::Raw, payload(None, None, &[]))).await.unwrap();
    assert_eq!((shelf.only().payload.key, shelf.only().payload.value), (None, None));
}

#[tokio::test]
async fn key_and_value_always_fit_and_headers_are_cut() {
    let value = vec![b'x'; 1000];
    let large = [b'y'; 500];
    let event = decoded(Serializer::Raw, payload(Some("k"), Some(&value), &[("a", &large), ("b", b"small")]));
    for (limit_bytes, kept) in [(1001, &[][..]), (1001 + 22, &["mqgate-dlq-group"][..])] {
        let shelf = Shelf::new(limit_bytes, []);
        bury(&shelf, &event).await.unwrap();
        let payload = shelf.only().payload;
        assert_eq!(payload.value.unwrap().len(), 1000);
        assert_eq!(payload.headers.iter().map(|header| &*header.name).collect::<Vec<_>>(), kept);
    }
    let shelf = Shelf::new(1001 + 490, []);
    bury(&shelf, &event).await.unwrap();
    let payload = shelf.only().payload;
    assert!(text(&payload, "mqgate-dlq-reason").is_some() && text(&payload, "b").is_some() && text(&payload, "a").is_none());
}

#[tokio::test]
async fn it_counts_only_once_it_is_acknowledged() {
    let failures = [ProduceError::NotWritten(NotWritten::DiskFull, "disk full".into()), ProduceError::MaybeWritten("no answer".into())];
    let shelf = Shelf::new(1 << 20, failures);
    let refusal = bury(&shelf, &event("v")).await.unwrap_err();
    for said in ["group g", "topic t", "partition 3", "offset 81", "dead-letter topic dead", "disk full"] {
        assert!(refusal.contains(said), "{refusal}");
    }
    assert!(bury(&shelf, &event("v")).await.is_err());
    assert!(bury(&shelf, &event("v")).await.is_ok());
    shelf.only();
}

#[tokio::test]
async fn without_a_topic_a_record_is_given_up_all_the_same() {
    assert_eq!(Bench::to("http://127.0.0.1:1/").delivery.bypass(&event("v"), &refused()).await, Ok(()));
}

#[tokio::test]
async fn an_error_page_is_cleaned_and_cut_before_it_is_kept() {
    let page = format!("<html>\n<b>\0not\u{7} found</b>\n{}\n", "<p>line</p>\n".repeat(90_000));
    let mut answer = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n\u{1}", page.len() + 2).into_bytes();
    answer.extend_from_slice(b"\xff");
    answer.extend_from_slice(page.as_bytes());
    let receiver = Receiver::start(move |request| if request.number == 0 { vec![send(&answer), Step::Stall] } else { vec![ok()] }).await;
    let shelf = Shelf::new(1 << 20, []);
    let bench = burying(&shelf, &receiver.url());
    let failure = bench.failure(&event("1")).await;
    bench.delivery.bypass(&event("1"), &given_up(failure)).await.unwrap();
    let payload = shelf.only().payload;
    let reason = text(&payload, "mqgate-dlq-reason").unwrap();
    assert!(reason.starts_with("status_4xx: 404 Not Found: <html> <b> not found</b> <p>line</p> <p>line</p>"), "{reason}");
    assert!(reason.chars().count() <= 256 && !reason.contains(char::is_control), "{reason}");
    assert_eq!(bench.process(&event("2")).await, engine::event::Outcome::Done, "the next record flows");
}

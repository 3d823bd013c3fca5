//! What a client of `mqgate proxy` is told of topics that are new, missing, compacted or short of
//! replicas (C18, C21), and where its keys go (C25).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use common::ids::{Epoch, Offset, Partition};
use integration_tests::producer::{Producer, Refused};
use serde_json::{Value, json};

use super::serving::proxy;
use super::*;

async fn post(gateway: &integration_tests::gateway::Gateway, topic: &Topic, key: Option<&str>) -> Result<u64, Refused> {
    Producer::new(gateway.api, topic.as_str()).plain(key, &[], "x".into()).await.map(|acked| acked.offset)
}

/// Its problem as the body has it: the code, and whether repeating it can help.
fn problem(refused: &Refused) -> (Option<u16>, Value, Value) {
    let body: Value = serde_json::from_str(&refused.body).unwrap();
    (refused.status, body["code"].clone(), body["retriable"].clone())
}

#[tokio::test]
async fn a_topic_made_just_now_takes_the_first_message_fifty_times() {
    let kafka = Kafka::shared(Version::Four).await;
    let gateway = proxy(&kafka).start().await;
    for n in 0..50 {
        let topic = fresh("new");
        kafka.create_topic(topic.as_str(), 1, &[]).await;
        let posted = Instant::now();
        let answer = post(&gateway, &topic, None).await;
        assert_eq!(answer.ok(), Some(0), "topic {n}");
        assert!(posted.elapsed() < Duration::from_secs(3), "topic {n}: {:?}", posted.elapsed());
    }
}

#[tokio::test]
async fn a_missing_topic_is_a_404_within_2_s_slows_nobody_and_is_not_made() {
    let kafka = Kafka::shared(Version::Four).await;
    let gateway = proxy(&kafka).start().await;
    let (there, nope) = (fresh("there"), fresh("nope"));
    kafka.create_topic(there.as_str(), 1, &[]).await;
    post(&gateway, &there, None).await.unwrap();
    let mut pace = tokio::time::interval(Duration::from_millis(50));
    let (mut missing, mut normal) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        pace.tick().await;
        let producer = Producer::new(gateway.api, nope.as_str());
        missing.push(tokio::spawn(async move {
            let posted = Instant::now();
            (producer.plain(None, &[], "x".into()).await.unwrap_err(), posted.elapsed())
        }));
        let posted = Instant::now();
        post(&gateway, &there, None).await.unwrap();
        normal.push(posted.elapsed());
    }
    for answer in missing {
        let (refused, took) = answer.await.unwrap();
        assert_eq!(problem(&refused), (Some(404), json!("unknown_topic"), json!(false)));
        assert!(took < Duration::from_millis(2_300), "{took:?}");
    }
    normal.sort();
    println!("beside them: p50 {:?}, the slowest {:?}", normal[100], normal[199]);
    assert!(normal[197] < Duration::from_millis(300), "{:?}", &normal[190..]);
    assert_eq!(queue(&kafka).topic(&nope).await.unwrap(), None);
}

#[tokio::test]
async fn a_compacted_topic_refuses_a_message_without_a_key_for_good() {
    let kafka = Kafka::shared(Version::Four).await;
    let gateway = proxy(&kafka).start().await;
    let topic = fresh("compacted");
    kafka.create_topic(topic.as_str(), 1, &[("cleanup.policy", "compact")]).await;
    post(&gateway, &topic, Some("k")).await.unwrap();
    let posted = Instant::now();
    let refused = post(&gateway, &topic, None).await.unwrap_err();
    assert_eq!(problem(&refused), (Some(422), json!("record_refused"), json!(false)));
    assert!(posted.elapsed() < Duration::from_secs(1), "{:?}", posted.elapsed());
}

/// The topic wants two replicas, and one of the two brokers is gone.
#[tokio::test]
async fn too_few_replicas_are_a_503_that_may_be_repeated_and_never_a_200() {
    let mut kafka = Kafka::start(Version::Four).await;
    kafka.start_second().await;
    let gateway = proxy(&kafka).proxy("produce_timeout", json!("3s")).start().await;
    let topic = fresh("replicas");
    kafka.create_topic_on_both(topic.as_str(), &[("min.insync.replicas", "2")]).await;
    let ready = async || post(&gateway, &topic, None).await.ok();
    wait::until("both to have a message", Duration::from_secs(20), ready).await;
    kafka.kill_second();
    let killed = Instant::now();
    let mut refusals = Vec::new();
    // The leader misses the other one only after a while, and waits for it until then.
    while refusals.len() < 3 {
        let posted = Instant::now();
        let answer = post(&gateway, &topic, None).await;
        assert!(posted.elapsed() < Duration::from_millis(3_600), "{:?}: {answer:?}", posted.elapsed());
        match answer {
            Err(refused) if refused.status == Some(503) => refusals.push(refused),
            Err(refused) => assert_eq!(refused.status, Some(504), "{refused:?}"),
            Ok(offset) => assert!(refusals.is_empty(), "offset {offset} has one replica"),
        }
        assert!(killed.elapsed() < Duration::from_secs(40), "never refused");
    }
    for refused in refusals {
        assert_eq!(problem(&refused), (Some(503), json!("unavailable"), json!(true)), "{refused:?}");
        assert!(refused.retry_after.unwrap().parse::<u64>().unwrap() >= 1);
    }
}

/// As its own console producer writes them: producers of both kinds keep the order of a key.
#[tokio::test]
async fn keys_go_where_the_console_producer_puts_them() {
    let kafka = Kafka::shared(Version::Four).await;
    let gateway = proxy(&kafka).start().await;
    let topic = fresh("console");
    kafka.create_topic(topic.as_str(), 15, &[]).await;
    let mut keys: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
    keys.extend(["7c1f3b52-9d6e-4c5a-8f0b-2e4a6d8c0b1f", "Schlüssel-ключ-鍵", "x"].map(str::to_owned));
    let messages: Vec<(String, Bytes)> = keys.iter().map(|key| (key.clone(), Bytes::from_static(b"ours"))).collect();
    let acked = Producer::new(gateway.api, topic.as_str()).batch(&messages, &json!({})).await;
    let ours: BTreeMap<String, Partition> = keys.iter().cloned().zip(acked.iter().map(|acked| Partition(acked.partition))).collect();
    let (there, name) = (Arc::clone(&kafka), topic.as_str().to_owned());
    tokio::task::spawn_blocking(move || {
        let messages: Vec<_> = keys.iter().map(|key| (key.as_str(), "theirs")).collect();
        there.produce_by_console(&name, &messages);
    })
    .await
    .unwrap();
    let (queue, mut theirs) = (queue(&kafka), BTreeMap::new());
    for partition in (0..15).map(Partition) {
        let end = queue.watermarks(&topic, partition).await.unwrap().end;
        let mut reader = queue.open(&topic, partition, Offset(0), Epoch(1)).await.unwrap();
        let records = if end > Offset(0) { read_to(&mut *reader, end.0).await } else { Vec::new() };
        let written = records.into_iter().map(|record| record.payload).filter(|payload| payload.value.as_deref() == Some(b"theirs"));
        theirs.extend(written.map(|payload| (String::from_utf8(payload.key.unwrap().to_vec()).unwrap(), partition)));
    }
    assert_eq!(theirs, ours);
    assert!(ours.values().collect::<BTreeSet<_>>().len() > 10, "they spread");
}

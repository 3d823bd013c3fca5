//! What the broker makes of messages.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use common::ids::{Epoch, Offset, Partition};
use common::queue::NotWritten;
use common::queue::kafka::Compression;

use super::*;

/// Counts of records by partition, as they were acknowledged.
async fn spread(queue: &KafkaQueue, messages: impl Iterator<Item = Message>) -> BTreeMap<Partition, usize> {
    let mut counts = BTreeMap::new();
    for message in messages {
        *counts.entry(produce(queue, message).await.unwrap().partition).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn no_key_an_empty_key_and_the_text_null_are_three_things() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let topic = fresh("keys");
    kafka.create_topic(topic.as_str(), 6, &[]).await;
    assert!(spread(&queue, (0..300).map(|_| message(&topic, "x"))).await.len() > 1);
    assert_eq!(spread(&queue, (0..30).map(|_| keyed(&topic, "", "x"))).await.len(), 1);
    assert_eq!(spread(&queue, (0..30).map(|_| keyed(&topic, "null", "x"))).await.len(), 1);
    let mut keys = HashSet::new();
    for partition in (0..6).map(Partition) {
        let end = queue.watermarks(&topic, partition).await.unwrap().end;
        if end > Offset(0) {
            let mut reader = queue.open(&topic, partition, Offset(0), Epoch(1)).await.unwrap();
            keys.extend(read_to(&mut *reader, end.0).await.into_iter().map(|record| record.payload.key));
        }
    }
    assert_eq!(keys, HashSet::from([None, Some(Bytes::new()), Some(Bytes::from("null"))]));
}

/// Partitions of 15 as `BuiltInPartitioner.partitionForKey` of the Java client gives them:
/// `toPositive(murmur2(key)) % 15`, from the hashes in Kafka's own `UtilsTest.testMurmur2`.
#[tokio::test]
async fn keys_go_where_the_java_client_puts_them() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let topic = fresh("java");
    kafka.create_topic(topic.as_str(), 15, &[]).await;
    let vectors = [
        ("21", -973_932_308_i32),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ];
    for (key, hash) in vectors {
        let produced = produce(&queue, keyed(&topic, key, "x")).await.unwrap();
        assert_eq!(produced.partition.0.cast_signed(), (hash & 0x7fff_ffff) % 15, "{key}");
    }
}

#[tokio::test]
async fn an_oversized_message_fails_alone() {
    let kafka = Kafka::shared(Version::Four).await;
    let mut options = options(&kafka);
    options.properties.insert("linger.ms".into(), "50".into());
    let queue = start(options);
    let topic = fresh("small-limit");
    kafka.create_topic(topic.as_str(), 1, &[("max.message.bytes", "100000")]).await;
    let sizes = (0..50).flat_map(|n| if n == 25 { vec![150_000, 4_000] } else { vec![4_000] });
    let writes: Vec<_> = sizes.map(|size| (size, queue.produce(message(&topic, vec![7; size]), Ack::All))).collect();
    for (size, write) in writes {
        match timeout(PATIENCE, write).await.unwrap() {
            Ok(_) => assert_eq!(size, 4_000),
            Err(error) => {
                assert_eq!(
                    (size, error.to_string()),
                    (150_000, "the message has 150000 bytes, more than the topic's limit of 100000".into())
                );
            }
        }
    }
    assert_eq!(queue.watermarks(&topic, Partition(0)).await.unwrap().end, Offset(50));
    // A batch of one has 72 bytes beside a value of this size.
    for (size, fits) in [(100_000 - 72, true), (100_000 - 71, false), (100_000, false)] {
        let began = Instant::now();
        let answer = produce(&queue, message(&topic, vec![7; size])).await;
        assert!(
            matches!((&answer, fits), (Ok(_), true) | (Err(ProduceError::TooLarge { limit: 100_000, .. }), false)),
            "{size}: {answer:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(2));
    }
}

#[tokio::test]
async fn a_compacted_topic_refuses_what_has_no_key_and_takes_the_rest() {
    let kafka = Kafka::shared(Version::Four).await;
    let mut options = options(&kafka);
    options.properties.insert("linger.ms".into(), "50".into());
    let queue = start(options);
    let topic = fresh("compacted");
    kafka.create_topic(topic.as_str(), 1, &[("cleanup.policy", "compact")]).await;
    let began = Instant::now();
    let writes: Vec<_> = (0..20)
        .map(|n| if n % 5 == 0 { message(&topic, "x") } else { keyed(&topic, "k", "x") })
        .map(|message| (message.payload.key.is_some(), queue.produce(message, Ack::All)))
        .collect();
    for (has_key, write) in writes {
        let answer = timeout(PATIENCE, write).await.unwrap();
        assert!(matches!((has_key, &answer), (true, Ok(_)) | (false, Err(ProduceError::RecordRefused(_)))), "{has_key}: {answer:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_topic_made_just_now_can_be_written_to() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    for n in 0..50 {
        let topic = fresh("new");
        kafka.create_topic(topic.as_str(), 1, &[]).await;
        let answer = timeout(Duration::from_secs(3), queue.produce(message(&topic, "x"), Ack::All)).await.unwrap();
        assert!(answer.is_ok(), "{n}: {answer:?}");
    }
    // Asked for before it is there.
    let topic = fresh("soon");
    let early = queue.produce(message(&topic, "x"), Ack::All);
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    assert_eq!(timeout(PATIENCE, early).await.unwrap().unwrap().offset, Offset(0));
}

#[tokio::test]
async fn a_missing_topic_is_said_soon_slows_nobody_and_is_not_created() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let (topic, nope) = (fresh("there"), fresh("nope"));
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    produce(&queue, message(&topic, "first")).await.unwrap();
    let mut slowest = Duration::ZERO;
    for _ in 0..40 {
        let began = Instant::now();
        let missing = queue.produce(message(&nope, "x"), Ack::All);
        produce(&queue, message(&topic, "x")).await.unwrap();
        slowest = slowest.max(began.elapsed());
        tokio::spawn(async move {
            let answer = timeout(Duration::from_secs(2), missing).await;
            assert!(matches!(answer, Ok(Err(ProduceError::UnknownTopic(_)))), "{answer:?}");
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let began = Instant::now();
    assert_eq!(produce(&queue, message(&nope, "x")).await, Err(ProduceError::UnknownTopic(nope.clone())));
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    assert_eq!(queue.topic(&nope).await.unwrap(), None);
}

#[tokio::test]
async fn partitions_that_were_added_are_used_soon() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let topic = fresh("added");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    produce(&queue, keyed(&topic, "k", "x")).await.unwrap();
    kafka.add_partitions(topic.as_str(), 3).await;
    let used = async || {
        let partitions = spread(&queue, (0..20).map(|n| keyed(&topic, &format!("k{n}"), "x"))).await;
        (partitions.len() == 3).then_some(())
    };
    wait::until("new partitions are used", PATIENCE, used).await;
}

#[tokio::test]
async fn every_compression_is_read_back() {
    let kafka = Kafka::shared(Version::Four).await;
    let topic = fresh("compressed");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    for (offset, word) in (0..).zip(Compression::WORDS) {
        let mut options = options(&kafka);
        options.compression = word.parse().unwrap();
        let queue = start(options);
        assert_eq!(produce(&queue, message(&topic, word.repeat(1_000))).await.unwrap().offset, Offset(offset));
        let mut reader = queue.open(&topic, Partition(0), Offset(offset), Epoch(1)).await.unwrap();
        let records = read_to(&mut *reader, offset + 1).await;
        assert_eq!(records[0].payload.value.as_deref().unwrap(), word.repeat(1_000).as_bytes());
    }
}

#[tokio::test]
async fn without_acknowledgement_the_local_queue_answers() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let topic = fresh("none");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    assert_eq!(timeout(PATIENCE, queue.produce(message(&topic, "x"), Ack::None)).await.unwrap().unwrap().offset, Offset(0));
    queue.shutdown().await;
    assert_eq!(queue.watermarks(&topic, Partition(0)).await.unwrap().end, Offset(1));
    let refused = produce(&queue, message(&topic, "x")).await;
    assert!(matches!(refused, Err(ProduceError::NotWritten(NotWritten::ShuttingDown, _))), "{refused:?}");
}

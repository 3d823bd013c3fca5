#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use crate::clock;
use crate::ids::{Epoch, Offset, Partition, Topic};
use crate::queue::{Ack, CreateTopicError, ProduceError, Produced, Queue, QueueError, ReadError, Reader, Watermarks};
use crate::record::{Header, Message, Payload, Record};

type AnyQueue = Arc<dyn Queue>;

const P0: Partition = Partition(0);
const PATIENCE: Duration = Duration::from_secs(20);
const PLENTY: usize = 1 << 20;

async fn topic(queue: &AnyQueue, partitions: u32) -> Topic {
    let topic = Topic::new(&format!("conformance-{}", uuid::Uuid::new_v4())).unwrap();
    queue.create_topic(&topic, partitions).await.unwrap();
    topic
}

fn message(topic: &Topic, value: impl Into<Bytes>) -> Message {
    let payload = Payload { value: Some(value.into()), ..Payload::default() };
    Message { topic: topic.clone(), partition: None, timestamp: None, payload }
}

async fn produce(queue: &AnyQueue, message: Message) -> Produced {
    timeout(PATIENCE, queue.produce(message, Ack::All)).await.unwrap().unwrap()
}

async fn open(queue: &AnyQueue, topic: &Topic, from: u64) -> Box<dyn Reader> {
    queue.open(topic, P0, Offset(from), Epoch(1)).await.unwrap()
}

/// Reads until there are so many.
async fn read(reader: &mut dyn Reader, count: usize) -> Vec<Record> {
    let mut records = Vec::new();
    while records.len() < count {
        records.extend(timeout(PATIENCE, reader.next(PLENTY)).await.unwrap().unwrap().records);
    }
    records
}

fn values(records: &[Record]) -> Vec<&[u8]> {
    records.iter().map(|record| record.payload.value.as_deref().unwrap()).collect()
}

pub async fn records_come_back_in_order_and_unchanged(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    let binary: Vec<u8> = (0..=255).collect();
    let writes: Vec<_> = (0..100u32).map(|n| queue.produce(message(&topic, [&n.to_be_bytes()[..], &binary].concat()), Ack::All)).collect();
    for (offset, write) in (0..).zip(writes) {
        let produced = write.await.unwrap();
        assert_eq!((produced.partition, produced.offset), (P0, Offset(offset)));
    }
    let records = read(&mut *open(&queue, &topic, 0).await, 100).await;
    for (n, record) in (0..).zip(&records) {
        assert_eq!(record.offset, Offset(n));
        assert_eq!(record.payload.value.as_deref().unwrap(), [&u32::try_from(n).unwrap().to_be_bytes()[..], &binary].concat());
    }
}

pub async fn null_empty_and_absent_are_kept_apart(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    let fields = [None, Some(Bytes::new()), Some(Bytes::from("x"))];
    let payloads: Vec<_> = fields
        .iter()
        .flat_map(|key| fields.iter().map(|value| Payload { key: key.clone(), value: value.clone(), headers: Vec::new() }))
        .collect();
    for payload in &payloads {
        produce(&queue, Message { payload: payload.clone(), ..message(&topic, "") }).await;
    }
    let records = read(&mut *open(&queue, &topic, 0).await, payloads.len()).await;
    assert_eq!(records.into_iter().map(|record| record.payload).collect::<Vec<_>>(), payloads);
}

pub async fn repeated_headers_keep_their_order(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    let header = |name: &str, value: &'static [u8]| Header { name: name.into(), value: Bytes::from_static(value) };
    let headers = vec![header("b", b"1"), header("a", b""), header("b", b"\xff\0"), header("b", b"1")];
    let payload = Payload { headers: headers.clone(), ..Payload::default() };
    produce(&queue, Message { payload, ..message(&topic, "") }).await;
    let records = read(&mut *open(&queue, &topic, 0).await, 1).await;
    assert_eq!(records[0].payload.headers, headers);
}

fn keyed(topic: &Topic, key: &str) -> Message {
    let payload = Payload { key: Some(Bytes::copy_from_slice(key.as_bytes())), ..Payload::default() };
    Message { payload, ..message(topic, "") }
}

pub async fn one_key_goes_to_one_partition(queue: AnyQueue) {
    let topic = topic(&queue, 8).await;
    // murmur2 of "foobar" is -790332482, of "abc" 479470107, as in Kafka's own tests.
    for (key, partition) in [("foobar", (-790_332_482_i32 & 0x7fff_ffff) % 8), ("abc", 479_470_107 % 8)] {
        for _ in 0..3 {
            assert_eq!(i64::from(produce(&queue, keyed(&topic, key)).await.partition.0), i64::from(partition));
        }
    }
    let empty = produce(&queue, keyed(&topic, "")).await.partition;
    assert_eq!(produce(&queue, keyed(&topic, "")).await.partition, empty);
}

pub async fn records_without_a_key_are_spread(queue: AnyQueue) {
    let topic = topic(&queue, 4).await;
    let mut seen = HashSet::new();
    for _ in 0..200 {
        seen.insert(produce(&queue, message(&topic, "x")).await.partition);
    }
    assert!(seen.len() > 1, "all of them went to {seen:?}");
}

pub async fn an_explicit_partition_is_kept(queue: AnyQueue) {
    let topic = topic(&queue, 4).await;
    let produced = produce(&queue, Message { partition: Some(Partition(3)), ..keyed(&topic, "foobar") }).await;
    assert_eq!((produced.partition, produced.offset), (Partition(3), Offset(0)));
}

pub async fn timestamps_are_the_producers_or_the_clocks(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    let before = clock::now_ms();
    assert_eq!(produce(&queue, Message { timestamp: Some(before - 5_000), ..message(&topic, "x") }).await.timestamp, before - 5_000);
    let clocks = produce(&queue, message(&topic, "x")).await.timestamp;
    assert!((before..=clock::now_ms()).contains(&clocks), "{clocks}");
    let records = read(&mut *open(&queue, &topic, 0).await, 2).await;
    assert_eq!(records.iter().map(|record| record.timestamp).collect::<Vec<_>>(), [before - 5_000, clocks]);
}

pub async fn times_are_found_whatever_their_order(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    let base = clock::now_ms();
    let times = [5, 3, 9, 1, 9, 12, 2, 11, 30, 4].map(|ms| base + ms);
    assert_eq!(queue.offset_for_time(&topic, P0, 0).await.unwrap(), Offset(0));
    for time in times {
        produce(&queue, Message { timestamp: Some(time), ..message(&topic, "x") }).await;
    }
    for time in base..base + 40 {
        let expected = times.iter().position(|t| *t >= time).unwrap_or(times.len());
        assert_eq!(queue.offset_for_time(&topic, P0, time).await.unwrap(), Offset(expected as u64), "base + {}", time - base);
    }
}

pub async fn watermarks_follow_the_log(queue: AnyQueue) {
    let topic = topic(&queue, 2).await;
    let watermarks = |end| Watermarks { first: Offset(0), end: Offset(end) };
    assert_eq!(queue.watermarks(&topic, P0).await.unwrap(), watermarks(0));
    for _ in 0..3 {
        produce(&queue, Message { partition: Some(P0), ..message(&topic, "x") }).await;
    }
    assert_eq!(queue.watermarks(&topic, P0).await.unwrap(), watermarks(3));
    assert_eq!(queue.watermarks(&topic, Partition(1)).await.unwrap(), watermarks(0));
}

pub async fn a_reader_at_the_end_wakes_for_a_new_record(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    produce(&queue, message(&topic, "old")).await;
    let mut reader = open(&queue, &topic, 1).await;
    let waiting = tokio::spawn(async move { read(&mut *reader, 1).await });
    tokio::task::yield_now().await;
    produce(&queue, message(&topic, "new")).await;
    assert_eq!(values(&timeout(PATIENCE, waiting).await.unwrap().unwrap()), [b"new"]);
}

pub async fn a_dropped_call_of_next_loses_nothing(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    let mut reader = open(&queue, &topic, 0).await;
    assert!(timeout(Duration::from_millis(50), reader.next(PLENTY)).await.is_err());
    for n in 0..50u8 {
        let write = queue.produce(message(&topic, vec![n]), Ack::All);
        // Given up again and again while records come in; what it had read by then would be missing below.
        if let Ok(batch) = timeout(Duration::from_micros(50), reader.next(PLENTY)).await {
            reader = open(&queue, &topic, batch.unwrap().records[0].offset.0).await;
        }
        write.await.unwrap();
    }
    let next = timeout(PATIENCE, reader.next(PLENTY)).await.unwrap().unwrap().records[0].clone();
    let expected = u8::try_from(next.offset.0).unwrap();
    assert_eq!(values(&[next]), [&[expected]]);
}

pub async fn a_reader_can_be_dropped_and_opened_again(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    for n in 0..10u8 {
        produce(&queue, message(&topic, vec![n])).await;
    }
    for from in [7, 0, 3, 9] {
        let records = read(&mut *open(&queue, &topic, from).await, 1).await;
        assert_eq!(records[0].offset, Offset(from));
        assert_eq!(values(&records[..1]), [&[u8::try_from(from).unwrap()]]);
    }
}

pub async fn a_batch_is_bounded_and_says_where_it_ends(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    let writes: Vec<_> = (0..100).map(|_| queue.produce(message(&topic, vec![7; 1_000]), Ack::All)).collect();
    for write in writes {
        write.await.unwrap();
    }
    let mut reader = open(&queue, &topic, 0).await;
    let mut at = Offset(0);
    while at < Offset(100) {
        let batch = timeout(PATIENCE, reader.next(10_000)).await.unwrap().unwrap();
        assert!(batch.records.iter().map(|record| record.payload.size_bytes()).sum::<usize>() <= 20_000);
        assert!(batch.records.first().is_none_or(|record| record.offset == at));
        assert!(batch.next_offset > at && batch.next_offset <= batch.end);
        assert_eq!(batch.end, Offset(100));
        at = batch.next_offset;
    }
}

pub async fn a_record_larger_than_the_bound_is_read(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    produce(&queue, message(&topic, vec![1; 100_000])).await;
    produce(&queue, message(&topic, "after")).await;
    let mut reader = open(&queue, &topic, 0).await;
    let batch = timeout(PATIENCE, reader.next(10)).await.unwrap().unwrap();
    assert_eq!(batch.records[0].payload.size_bytes(), 100_000);
}

pub async fn out_of_range_is_an_error_with_the_watermarks(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    produce(&queue, message(&topic, "x")).await;
    let error = match queue.open(&topic, P0, Offset(2), Epoch(1)).await {
        Ok(mut reader) => timeout(PATIENCE, reader.next(PLENTY)).await.unwrap().unwrap_err(),
        Err(error) => error,
    };
    let log = Watermarks { first: Offset(0), end: Offset(1) };
    assert_eq!(error, ReadError::OutOfRange { asked: Offset(2), log });
}

pub async fn what_is_unknown_is_named(queue: AnyQueue) {
    let known = topic(&queue, 2).await;
    let unknown = Topic::new(&format!("unknown-{}", uuid::Uuid::new_v4())).unwrap();
    let write = |message| timeout(Duration::from_secs(2), queue.produce(message, Ack::All));
    assert_eq!(write(message(&unknown, "x")).await.unwrap(), Err(ProduceError::UnknownTopic(unknown.clone())));
    let refused = write(Message { partition: Some(Partition(2)), ..message(&known, "x") }).await.unwrap();
    assert_eq!(refused, Err(ProduceError::UnknownPartition { topic: known.clone(), partition: Partition(2), partitions: 2 }));

    assert_eq!(queue.topic(&unknown).await, Ok(None));
    assert_eq!(queue.delete_topic(&unknown).await, Ok(false));
    let no_topic = QueueError::UnknownTopic(unknown.clone());
    assert_eq!(queue.watermarks(&unknown, P0).await, Err(no_topic.clone()));
    assert_eq!(queue.offset_for_time(&unknown, P0, 0).await, Err(no_topic.clone()));
    assert_eq!(queue.open(&unknown, P0, Offset(0), Epoch(1)).await.err(), Some(no_topic.into()));
    assert_eq!(queue.watermarks(&known, Partition(2)).await, Err(QueueError::UnknownPartition(known, Partition(2))));
}

pub async fn topics_are_created_listed_and_deleted(queue: AnyQueue) {
    let topic = topic(&queue, 3).await;
    let info = queue.topic(&topic).await.unwrap().unwrap();
    assert_eq!((&info.topic, info.partitions), (&topic, 3));
    assert!(queue.topics().await.unwrap().contains(&info));
    assert_eq!(queue.create_topic(&topic, 5).await, Err(CreateTopicError::Exists(info)));
    let other = Topic::new(&format!("none-{}", uuid::Uuid::new_v4())).unwrap();
    assert!(matches!(queue.create_topic(&other, 0).await, Err(CreateTopicError::Partitions { asked: 0, .. })));

    assert_eq!(queue.delete_topic(&topic).await, Ok(true));
    eventually(|| async { queue.topic(&topic).await.unwrap().is_none() }).await;
    assert!(queue.topics().await.unwrap().iter().all(|info| info.topic != topic));
    assert_eq!(queue.delete_topic(&topic).await, Ok(false));
}

pub async fn a_topic_made_again_is_another(queue: AnyQueue) {
    let topic = topic(&queue, 1).await;
    produce(&queue, message(&topic, "old")).await;
    let old = queue.topic(&topic).await.unwrap().unwrap();
    let mut reader = open(&queue, &topic, 1).await;
    let waiting = tokio::spawn(async move { reader.next(PLENTY).await });
    queue.delete_topic(&topic).await.unwrap();
    eventually(|| async { queue.topic(&topic).await.unwrap().is_none() }).await;
    assert!(timeout(PATIENCE, waiting).await.unwrap().unwrap().is_err());

    let new = queue.create_topic(&topic, 2).await.unwrap();
    assert_eq!(new.partitions, 2);
    assert!(old.id.is_none() || new.id != old.id);
    let produced = produce(&queue, Message { partition: Some(P0), ..message(&topic, "new") }).await;
    assert_eq!(produced.offset, Offset(0));
    assert_eq!(values(&read(&mut *open(&queue, &topic, 0).await, 1).await), [b"new"]);
}

pub async fn changes_of_topics_are_hinted(queue: AnyQueue) {
    let mut changes = queue.changes();
    changes.borrow_and_update();
    let topic = topic(&queue, 1).await;
    timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    changes.borrow_and_update();
    queue.delete_topic(&topic).await.unwrap();
    timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
}

/// For queues whose servers agree after a while.
async fn eventually<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap();
}

//! Reading what is not simply one record after the other.

use std::time::Instant;

use common::ids::{Epoch, Offset, Partition};
use common::queue::{ReadError, Watermarks};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::*;

const P0: Partition = Partition(0);

async fn open(queue: &KafkaQueue, topic: &Topic, from: u64) -> Box<dyn Reader> {
    queue.open(topic, P0, Offset(from), Epoch(1)).await.unwrap()
}

fn offsets(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.offset.0).collect()
}

/// Writes the record, with key `f`, that begins another segment, and waits until of all that are
/// before `end` so many are left; these.
pub(super) async fn until_compacted(queue: &KafkaQueue, topic: &Topic, end: u64, left: usize) -> Vec<Record> {
    // `segment.ms` is a second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    produce(queue, keyed(topic, "f", "x")).await.unwrap();
    let compacted = async || {
        let records = read_to(&mut *open(queue, topic, 0).await, end).await;
        (records.len() == left).then_some(records)
    };
    wait::until("the log is compacted", Duration::from_secs(40), compacted).await
}

#[tokio::test]
async fn gaps_of_compaction_are_passed() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let topic = fresh("gaps");
    let settings =
        [("cleanup.policy", "compact"), ("segment.ms", "1000"), ("min.cleanable.dirty.ratio", "0.01"), ("min.compaction.lag.ms", "0")];
    kafka.create_topic(topic.as_str(), 1, &settings).await;
    for key in ["a", "b", "a", "a", "c", "b", "b", "c", "d", "e"] {
        produce(&queue, keyed(&topic, key, "x")).await.unwrap();
    }
    let left = until_compacted(&queue, &topic, 11, 6).await;
    assert_eq!(offsets(&left), [3, 6, 7, 8, 9, 10]);
    assert_eq!(offsets(&read_to(&mut *open(&queue, &topic, 4).await, 11).await), [6, 7, 8, 9, 10]);
}

/// Aborted records are not delivered, and control records take offsets.
#[tokio::test]
async fn a_cursor_passes_the_control_records_of_transactions() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let topic = fresh("transactions");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    let producer: BaseProducer = kafka.client_config().set("transactional.id", topic.as_str()).create().unwrap();
    let name = topic.as_str().to_owned();
    tokio::task::spawn_blocking(move || {
        let patience = Duration::from_secs(20);
        let send = |value: &str| producer.send(BaseRecord::<str, str>::to(&name).payload(value)).unwrap();
        producer.init_transactions(patience).unwrap();
        producer.begin_transaction().unwrap();
        send("committed");
        producer.commit_transaction(patience).unwrap();
        producer.begin_transaction().unwrap();
        send("aborted");
        producer.flush(patience).unwrap();
        producer.abort_transaction(patience).unwrap();
    })
    .await
    .unwrap();
    let mut reader = open(&queue, &topic, 0).await;
    let records = read_to(&mut *reader, 4).await;
    assert_eq!(offsets(&records), [0]);
    // Nothing but control records and aborted ones ahead: the end is reached all the same.
    let mut reader = open(&queue, &topic, 1).await;
    assert_eq!(read_to(&mut *reader, 4).await, []);
    produce(&queue, message(&topic, "next")).await.unwrap();
    assert_eq!(offsets(&read_to(&mut *reader, 5).await), [4]);
}

#[tokio::test]
async fn deleted_records_are_out_of_range_and_never_skipped() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let topic = fresh("retention");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    let writes: Vec<_> = (0..300).map(|_| queue.produce(message(&topic, "x"), Ack::All)).collect();
    for write in writes {
        timeout(PATIENCE, write).await.unwrap().unwrap();
    }
    kafka.delete_records(topic.as_str(), 0, 200).await;
    let log = Watermarks { first: Offset(200), end: Offset(300) };
    assert_eq!(queue.watermarks(&topic, P0).await.unwrap(), log);
    let mut reader = open(&queue, &topic, 50).await;
    let error = timeout(PATIENCE, reader.next(1 << 20)).await.unwrap().unwrap_err();
    assert_eq!(error, ReadError::OutOfRange { asked: Offset(50), log });
    assert_eq!(read_to(&mut *open(&queue, &topic, 200).await, 300).await.len(), 100);
}

#[tokio::test]
async fn many_readers_of_one_partition_each_read_all_of_it() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let topic = fresh("shared");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    for _ in 0..20 {
        produce(&queue, message(&topic, "x")).await.unwrap();
    }
    let mut readers = Vec::new();
    for from in 0..4 {
        readers.push((from, open(&queue, &topic, from).await));
    }
    for (from, reader) in &mut readers {
        assert_eq!(offsets(&read_to(&mut **reader, 20).await), (*from..20).collect::<Vec<_>>());
    }
    // A reader that nobody polls holds back nobody.
    let written = produce(&queue, message(&topic, "y")).await.unwrap();
    let (_, last) = readers.last_mut().unwrap();
    assert_eq!(offsets(&read_to(&mut **last, 21).await), [written.offset.0]);
}

/// A fetch that finds nothing waits for half a second, and whatever is asked behind it with it.
#[tokio::test]
async fn questions_are_answered_at_once_beside_an_idle_reader() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let topic = fresh("asked");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    let written = produce(&queue, message(&topic, "x")).await.unwrap();
    let mut reader = open(&queue, &topic, 0).await;
    assert_eq!(offsets(&read_to(&mut *reader, 1).await), [written.offset.0]);
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(queue.watermarks(&topic, P0).await.unwrap().end, Offset(1));
    }
    assert!(began.elapsed() < Duration::from_secs(3), "20 answers took {:?}", began.elapsed());
}

/// A backlog that is much more than what is fetched ahead comes whole, and at speed.
#[tokio::test]
async fn a_backlog_is_read_without_stalls() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = queue(&kafka);
    let topic = fresh("backlog");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    queue.topic(&topic).await.unwrap().unwrap();
    let writes: Vec<_> = (0..20_000).map(|_| queue.produce(message(&topic, vec![7; 1_000]), Ack::All)).collect();
    for write in writes {
        timeout(PATIENCE, write).await.unwrap().unwrap();
    }
    let began = Instant::now();
    let records = read_to(&mut *open(&queue, &topic, 0).await, 20_000).await;
    let took = began.elapsed();
    assert_eq!(offsets(&records), (0..20_000).collect::<Vec<_>>());
    println!("20,000 records of 1,000 bytes read in {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// A fetch leaves out partitions of which enough was fetched, and its answer is waited for on behalf of the others: a
/// reader with much ahead of it goes to another client, and comes back when it has caught up or is left alone.
#[tokio::test]
async fn a_backlog_is_not_held_up_by_partitions_that_have_nothing() {
    const RECORDS: u64 = 20_000;
    let kafka = Kafka::shared(Version::Four).await;
    let (queue, metrics) = start_counted(options(&kafka));
    let (idle, busy) = (fresh("idle"), fresh("busy"));
    for topic in [&idle, &busy] {
        kafka.create_topic(topic.as_str(), 1, &[]).await;
        queue.topic(topic).await.unwrap().unwrap();
    }
    let mut beside = open(&queue, &idle, 0).await;
    let beside = tokio::spawn(async move { offsets(&timeout(3 * PATIENCE, beside.next(1 << 20)).await.unwrap().unwrap().records) });
    let mut reader = open(&queue, &busy, 0).await;
    let writes: Vec<_> = (0..RECORDS).map(|_| queue.produce(message(&busy, vec![7; 1_000]), Ack::All)).collect();
    for write in writes {
        timeout(PATIENCE, write).await.unwrap().unwrap();
    }
    let reopened = |cause: &str| counted(&metrics, "mqgate_kafka_reader_reopenings_total", cause);
    let mut records = Vec::new();
    // Meanwhile enough is fetched that the next fetch leaves it out.
    let pause = || tokio::time::sleep(Duration::from_millis(100));
    while reopened("behind") == 0.0 {
        pause().await;
        records.extend(next(&mut *reader).await.records);
    }
    records.extend(next(&mut *reader).await.records);
    assert!(records.len() < 10_000, "{} records were read before", records.len());
    // Nobody reads for some seconds; what was fetched then is fetched again.
    let given_back = async || (counted(&metrics, "mqgate_kafka_readers", "") == 1.0).then_some(());
    wait::until("what is left alone is given back", PATIENCE, given_back).await;
    while reopened("behind") == 1.0 {
        pause().await;
        records.extend(next(&mut *reader).await.records);
    }
    records.extend(read_to(&mut *reader, RECORDS).await);
    assert_eq!(offsets(&records), (0..RECORDS).collect::<Vec<_>>());
    assert_eq!((reopened("given_back"), reopened("behind"), reopened("caught_up")), (1.0, 2.0, 0.0));

    let reading = tokio::spawn(async move { offsets(&read_to(&mut *reader, RECORDS + 1).await) });
    wait::until("it has caught up", PATIENCE, async || (reopened("caught_up") == 1.0).then_some(())).await;
    produce(&queue, message(&idle, "x")).await.unwrap();
    produce(&queue, message(&busy, "x")).await.unwrap();
    assert_eq!((beside.await.unwrap(), reading.await.unwrap()), (vec![0], vec![RECORDS]));
}

/// Each of these partitions would fetch 128 KiB ahead.
#[tokio::test]
async fn what_nobody_reads_is_bounded_in_total_and_read_in_full_later() {
    const PARTITIONS: u32 = 16;
    const RECORDS: u64 = 300;
    let kafka = Kafka::shared(Version::Four).await;
    let (queue, metrics) = start_counted(Options { prefetch_bytes: 64 << 10, prefetch_total_bytes: 512 << 10, ..options(&kafka) });
    let topic = fresh("unread");
    kafka.create_topic(topic.as_str(), i32::try_from(PARTITIONS).unwrap(), &[]).await;
    queue.topic(&topic).await.unwrap().unwrap();
    let one = |partition| Message { partition: Some(Partition(partition)), ..message(&topic, vec![7; 1_000]) };
    let writes: Vec<_> = (0..RECORDS).flat_map(|_| (0..PARTITIONS).map(|partition| queue.produce(one(partition), Ack::All))).collect();
    for write in writes {
        timeout(PATIENCE, write).await.unwrap().unwrap();
    }
    let mut readers = Vec::new();
    for partition in (0..PARTITIONS).map(Partition) {
        readers.push(queue.open(&topic, partition, Offset(0), Epoch(1)).await.unwrap());
    }
    let bounded = async || (counted(&metrics, "mqgate_kafka_readers", "") <= 4.0).then_some(());
    wait::until("what nobody reads is given back", PATIENCE, bounded).await;
    for reader in &mut readers {
        assert_eq!(offsets(&read_to(&mut **reader, RECORDS).await), (0..RECORDS).collect::<Vec<_>>());
    }
    assert!(counted(&metrics, "mqgate_kafka_reader_reopenings_total", "given_back") >= 12.0);
}

/// In a process of its own, since it counts threads and time.
#[test]
fn a_thousand_readers_of_a_thousand_topics_need_few_threads() {
    const ALONE: &str = "MQGATE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(a_thousand_readers());
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let status = command.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").status().unwrap();
    assert!(status.success());
}

async fn a_thousand_readers() {
    const TOPICS: usize = 1_000;
    let began = Instant::now();
    let kafka = Kafka::start(Version::Four).await;
    println!("the broker is up after {:?}", began.elapsed());
    let queue = queue(&kafka);
    let prefix = fresh("many");
    let topics: Vec<Topic> = (0..TOPICS).map(|n| Topic::new(&format!("{prefix}-{n}")).unwrap()).collect();
    let names: Vec<&str> = topics.iter().map(Topic::as_str).collect();
    kafka.create_topics(&names).await;
    println!("{TOPICS} topics were created after {:?}", began.elapsed());
    let mut readers = Vec::new();
    for topic in &topics {
        // Told of them all at once, a broker needs a while until it serves each.
        let opened = async || queue.open(topic, P0, Offset(0), Epoch(1)).await.ok();
        readers.push(wait::until("a reader is open", PATIENCE, opened).await);
    }
    println!("{TOPICS} readers were opened after {:?}", began.elapsed());
    let read = |mut reader: Box<dyn Reader>| tokio::spawn(async move { reader.next(1 << 20).await.unwrap().records.len() });
    let reading: Vec<_> = readers.into_iter().map(read).collect();
    let idle = wait::until("they cost next to nothing", PATIENCE, async || {
        let before = processor_time();
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some(processor_time().saturating_sub(before)).filter(|spent| *spent < Duration::from_millis(200))
    });
    let idle = idle.await;
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    println!("{TOPICS} idle readers: {threads} threads, {idle:?} of processor time in 1 s");
    let writes: Vec<_> = topics.iter().map(|topic| queue.produce(message(topic, "x"), Ack::All)).collect();
    for (topic, write) in topics.iter().zip(writes) {
        // The producer is new to all of them at once, and may be told of some too late.
        if write.await.is_err() {
            until_produced(&queue, message(topic, "x")).await;
        }
    }
    for reading in reading {
        assert_eq!(timeout(2 * PATIENCE, reading).await.unwrap().unwrap(), 1);
    }
    println!("all was read after {:?}", began.elapsed());
    assert!(threads <= 24, "{threads} threads");
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

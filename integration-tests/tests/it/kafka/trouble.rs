//! Brokers that stop, die, freeze and come back.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Instant;

use common::ids::{Epoch, Offset, Partition};
use common::queue::NotWritten;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;

const P0: Partition = Partition(0);

fn impatient(kafka: &Kafka) -> Options {
    Options { produce_timeout: Duration::from_secs(5), ..options(kafka) }
}

/// Every number that is in the partition under this key.
async fn stored(queue: &KafkaQueue, topic: &Topic, key: &str) -> Vec<u64> {
    // Just after an outage it may be refused for a moment.
    let end =
        wait::until("the end of the partition", Duration::from_secs(10), async || Some(queue.watermarks(topic, P0).await.ok()?.end)).await;
    let mut reader = queue.open(topic, P0, Offset(0), Epoch(1)).await.unwrap();
    let records = read_to(&mut *reader, end.0).await.into_iter().map(|record| record.payload);
    let values = records.filter(|payload| payload.key.as_deref() == Some(key.as_bytes())).filter_map(|payload| payload.value);
    values.map(|value| std::str::from_utf8(&value).unwrap().parse().unwrap()).collect()
}

/// `missing` says it, producers are told in time, and all is well again after its return.
#[tokio::test]
async fn a_stopped_broker_is_said_in_time_and_its_return_is_noticed() {
    let mut kafka = Kafka::start(Version::Four).await;
    let queue = start(impatient(&kafka));
    let topic = fresh("stopped");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    produce(&queue, message(&topic, "before")).await.unwrap();
    until_well(&queue).await;
    kafka.stop().await;
    let began = Instant::now();
    let (known, unknown) = (queue.produce(message(&topic, "x"), Ack::All), queue.produce(message(&fresh("unseen"), "x"), Ack::All));
    for answer in [timeout(Duration::from_secs(6), known).await.unwrap(), timeout(Duration::from_secs(6), unknown).await.unwrap()] {
        let told = matches!(answer, Err(ProduceError::NotWritten(NotWritten::Unavailable, _) | ProduceError::MaybeWritten(_)));
        assert!(told, "{answer:?}");
    }
    println!("told after {:?}", began.elapsed());
    until_missing(&queue, &kafka.brokers()).await;
    kafka.restart().await;
    let back = Instant::now();
    until_produced(&queue, message(&topic, "after")).await;
    println!("works again after {:?}", back.elapsed());
    until_well(&queue).await;
}

/// What a writer was told.
#[derive(Default)]
struct Told {
    acknowledged: Vec<u64>,
    refused: usize,
}

/// Writes 0, 1, 2 … under one key, so many at a time, until it is stopped.
struct Writer {
    key: &'static str,
    told: Arc<Mutex<Told>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Writer {
    fn start(queue: &Arc<KafkaQueue>, topic: &Topic, key: &'static str, at_a_time: usize) -> Self {
        let (told, stop) = (Arc::<Mutex<Told>>::default(), CancellationToken::new());
        let (queue, topic, tell, stopped) = (Arc::clone(queue), topic.clone(), Arc::clone(&told), stop.clone());
        let task = tokio::spawn(async move {
            let mut under_way = FuturesOrdered::new();
            for n in 0_u64.. {
                let write = queue.produce(keyed(&topic, key, n.to_string()), Ack::All);
                under_way.push_back(async move { (n, write.await) });
                let wanted = if stopped.is_cancelled() { 0 } else { at_a_time - 1 };
                while under_way.len() > wanted {
                    let (n, answer) = timeout(PATIENCE, under_way.next()).await.expect("every produce is answered in time").unwrap();
                    let mut told = tell.lock().unwrap();
                    match answer {
                        Ok(_) => told.acknowledged.push(n),
                        Err(
                            ProduceError::NotWritten(NotWritten::Unavailable | NotWritten::LocalQueueFull, _)
                            | ProduceError::MaybeWritten(_),
                        ) => {
                            told.refused += 1;
                        }
                        Err(other) => panic!("{n}: {other}"),
                    }
                }
                if stopped.is_cancelled() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        Self { key, told, stop, task }
    }

    async fn until_acknowledged_more(&self) {
        let before = self.told.lock().unwrap().acknowledged.len();
        let more = async || (self.told.lock().unwrap().acknowledged.len() >= before + 100).then_some(());
        wait::until("it goes on", PATIENCE, more).await;
    }

    async fn end(self) -> Told {
        self.stop.cancel();
        self.task.await.unwrap();
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

/// Keyed messages all the time, one after the other and 20 at a time, while the broker is restarted
/// by SIGTERM and by SIGKILL.
async fn restarts_while_producing(version: Version) {
    let mut kafka = Kafka::start(version).await;
    let queue = start(impatient(&kafka));
    let topic = fresh("restarted");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    let mut reader = queue.open(&topic, P0, Offset(0), Epoch(1)).await.unwrap();
    let writers = [Writer::start(&queue, &topic, "one by one", 1), Writer::start(&queue, &topic, "many at a time", 20)];
    for stop in [true, false] {
        for writer in &writers {
            writer.until_acknowledged_more().await;
        }
        if stop {
            kafka.stop().await;
        } else {
            kafka.kill();
        }
        kafka.restart().await;
        let back = Instant::now();
        until_produced(&queue, keyed(&topic, "other", "x")).await;
        println!("{version:?}: works again {:?} after the broker", back.elapsed());
        assert!(back.elapsed() < Duration::from_secs(10), "{:?}", back.elapsed());
    }
    let mut ended = Vec::new();
    for writer in writers {
        writer.until_acknowledged_more().await;
        ended.push((writer.key, writer.end().await));
    }
    for (key, Told { acknowledged, refused }) in ended {
        println!("{key}: {} acknowledged, {refused} refused", acknowledged.len());
        let stored: Vec<u64> = stored(&queue, &topic, key).await;
        let there: HashSet<u64> = stored.iter().copied().collect();
        assert!(acknowledged.iter().all(|n| there.contains(n)), "{key}: something acknowledged is missing");
        assert!(stored.is_sorted() && there.len() == stored.len(), "{key}: one after the other, each once");
    }
    // The reader was there all the time, and needs nothing from outside to go on.
    let end = queue.watermarks(&topic, P0).await.unwrap().end;
    assert_eq!(read_to(&mut *reader, end.0).await.len() as u64, end.0);
}

#[tokio::test]
async fn a_restarted_broker_loses_nothing_acknowledged() {
    restarts_while_producing(Version::Four).await;
}

#[tokio::test]
async fn a_restarted_broker_with_zookeeper_loses_nothing_acknowledged() {
    restarts_while_producing(Version::ThreeWithZooKeeper).await;
}

/// The topic wants two replicas, and one of the two brokers is gone.
#[tokio::test]
async fn too_few_replicas_is_said_within_the_deadline() {
    let mut kafka = Kafka::start(Version::Four).await;
    kafka.start_second().await;
    let queue = start(impatient(&kafka));
    let topic = fresh("replicas");
    kafka.create_topic_on_both(topic.as_str(), &[("min.insync.replicas", "2")]).await;
    produce(&queue, message(&topic, "x")).await.unwrap();
    kafka.kill_second();
    wait::until("it is known to be gone", Duration::from_secs(30), async || {
        match timeout(Duration::from_secs(5), queue.produce(message(&topic, "x"), Ack::All)).await.unwrap() {
            // The other one has it, and waits for the one that is gone.
            Ok(_) | Err(ProduceError::MaybeWritten(_)) => None,
            Err(ProduceError::NotWritten(NotWritten::Unavailable, _)) => Some(()),
            Err(other) => panic!("{other}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_broker_fills_the_local_queue_and_then_all_is_refused_at_once() {
    const QUEUE: usize = 2_000;
    let kafka = Kafka::start(Version::Four).await;
    let queue = start(Options { local_queue_records: QUEUE, ..impatient(&kafka) });
    let topic = fresh("frozen");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    produce(&queue, message(&topic, "first")).await.unwrap();
    kafka.freeze();
    let mut waiting = Vec::new();
    let mut full = 0;
    for n in 0..2 * QUEUE {
        let mut write = queue.produce(keyed(&topic, "k", n.to_string()), Ack::All);
        // Or the runtime, fair to others, would call pending what is answered.
        tokio::task::yield_now().await;
        match futures_util::future::poll_immediate(&mut write).await {
            None => waiting.push((n, write)),
            Some(Err(ProduceError::NotWritten(NotWritten::LocalQueueFull, _))) => full += 1,
            Some(other) => panic!("{other:?}"),
        }
    }
    assert!(waiting.len() <= QUEUE && full >= QUEUE, "{} wait, {full} were refused", waiting.len());
    let began = Instant::now();
    let mut acknowledged = vec![];
    for (n, write) in waiting {
        match timeout(Duration::from_secs(6), write).await.unwrap() {
            Ok(_) => acknowledged.push(n),
            Err(ProduceError::NotWritten(NotWritten::Unavailable, _) | ProduceError::MaybeWritten(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    kafka.thaw();
    until_produced(&queue, message(&topic, "last")).await;
    let stored: HashSet<u64> = stored(&queue, &topic, "k").await.into_iter().collect();
    assert!(acknowledged.iter().all(|n| stored.contains(&(*n as u64))));
}

//! Brokers that stop, die, freeze and come back.

use std::collections::HashSet;
use std::time::Instant;

use common::ids::{Epoch, Offset, Partition};
use common::queue::NotWritten;
use integration_tests::wait;
use tokio::sync::mpsc;

use super::*;

const P0: Partition = Partition(0);

fn impatient(kafka: &Kafka) -> Options {
    Options { produce_timeout: Duration::from_secs(5), ..options(kafka) }
}

/// Every value that is in the partition.
async fn stored(queue: &KafkaQueue, topic: &Topic) -> Vec<Bytes> {
    let end = queue.watermarks(topic, P0).await.unwrap().end;
    let mut reader = queue.open(topic, P0, Offset(0), Epoch(1)).await.unwrap();
    read_to(&mut *reader, end.0).await.into_iter().filter_map(|record| record.payload.value).collect()
}

/// `missing` says it, producers are told in time, and all is well again after its return.
#[tokio::test]
async fn a_stopped_broker_is_said_in_time_and_its_return_is_noticed() {
    let mut kafka = Kafka::start(Version::Four).await;
    let queue = KafkaQueue::start(impatient(&kafka)).unwrap();
    let topic = fresh("stopped");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    produce(&queue, message(&topic, "before")).await.unwrap();
    wait::until("all is well", Duration::from_secs(10), async || queue.missing().is_empty().then_some(())).await;
    kafka.stop().await;
    let began = Instant::now();
    let (known, unknown) = (queue.produce(message(&topic, "x"), Ack::All), queue.produce(message(&fresh("unseen"), "x"), Ack::All));
    for answer in [timeout(Duration::from_secs(6), known).await.unwrap(), timeout(Duration::from_secs(6), unknown).await.unwrap()] {
        let told = matches!(answer, Err(ProduceError::NotWritten(NotWritten::Unavailable, _) | ProduceError::MaybeWritten(_)));
        assert!(told, "{answer:?}");
    }
    println!("told after {:?}", began.elapsed());
    wait::until("it is missed", Duration::from_secs(10), async || (!queue.missing().is_empty()).then_some(())).await;
    assert!(queue.missing()[0].contains(&kafka.brokers()), "{:?}", queue.missing());
    kafka.restart().await;
    let back = Instant::now();
    wait::until("it works again", Duration::from_secs(10), async || produce(&queue, message(&topic, "after")).await.ok()).await;
    println!("works again after {:?}", back.elapsed());
    wait::until("all is well", Duration::from_secs(10), async || queue.missing().is_empty().then_some(())).await;
}

/// Keyed messages all the time, while the broker is restarted by SIGTERM and by SIGKILL.
async fn restarts_while_producing(version: Version) {
    let mut kafka = Kafka::start(version).await;
    let queue = KafkaQueue::start(impatient(&kafka)).unwrap();
    let topic = fresh("restarted");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    let mut reader = queue.open(&topic, P0, Offset(0), Epoch(1)).await.unwrap();
    let (stop, mut stopped) = mpsc::channel::<()>(1);
    let (writing, key_of) = (Arc::clone(&queue), topic.clone());
    let writer = tokio::spawn(async move {
        let (mut acknowledged, mut refused) = (Vec::new(), 0_usize);
        for n in 0_u64.. {
            if stopped.try_recv().is_ok() {
                break;
            }
            match produce(&writing, keyed(&key_of, "k", n.to_string())).await {
                Ok(_) => acknowledged.push(n),
                Err(ProduceError::NotWritten(NotWritten::Unavailable | NotWritten::LocalQueueFull, _) | ProduceError::MaybeWritten(_)) => {
                    refused += 1;
                }
                Err(other) => panic!("{n}: {other}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        (acknowledged, refused)
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    kafka.stop().await;
    kafka.restart().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    kafka.kill();
    kafka.restart().await;
    let back = Instant::now();
    wait::until("it works again", Duration::from_secs(10), async || produce(&queue, keyed(&topic, "other", "x")).await.ok()).await;
    println!("{version:?}: works again {:?} after the broker", back.elapsed());
    stop.send(()).await.unwrap();
    let (acknowledged, refused) = writer.await.unwrap();
    println!("{} acknowledged, {refused} refused", acknowledged.len());
    let stored: Vec<u64> =
        stored(&queue, &topic).await.iter().filter_map(|value| std::str::from_utf8(value).unwrap().parse().ok()).collect();
    let there: HashSet<u64> = stored.iter().copied().collect();
    assert!(acknowledged.iter().all(|n| there.contains(n)), "something acknowledged is missing");
    assert!(stored.is_sorted() && there.len() == stored.len(), "one after the other, each once");
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
    let queue = KafkaQueue::start(impatient(&kafka)).unwrap();
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
    let queue = KafkaQueue::start(Options { local_queue_records: QUEUE, ..impatient(&kafka) }).unwrap();
    let topic = fresh("frozen");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    produce(&queue, message(&topic, "first")).await.unwrap();
    kafka.freeze();
    // What was on its way is done.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut waiting = Vec::new();
    let mut full = 0;
    for n in 0..2 * QUEUE {
        let mut write = queue.produce(message(&topic, n.to_string()), Ack::All);
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
    let last = wait::until("it works again", Duration::from_secs(10), async || produce(&queue, message(&topic, "last")).await.ok()).await;
    let stored: HashSet<Bytes> = stored(&queue, &topic).await.into_iter().collect();
    assert!(acknowledged.iter().all(|n| stored.contains(n.to_string().as_bytes())) && last.offset > Offset(0));
}

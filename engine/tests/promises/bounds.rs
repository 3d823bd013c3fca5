//! Back-pressure: what a partition and a task may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use engine::event::{Attempt, Event, EventType, Outcome};
use engine::ids::{Epoch, Offset};
use engine::metrics::Metrics;
use engine::options::{EventTypes, Options};
use engine::ports::{Batch, Decoded, Decoder, Processor, Progress, Source, SourceError, SystemClock};
use engine::task::{Blocked, Budget, Label, Task};
use prometheus_client::registry::Registry;

use crate::rig::{Log, Record, Rig, Store, hanging, record, retry, sleep_ms};

fn sized(offset: u64, size_bytes: usize) -> Record {
    Record { size_bytes, ..record(offset) }
}

#[tokio::test(start_paused = true)]
async fn at_the_bound_on_records_reading_stops_and_names_what_blocks() {
    let options = Options { max_in_flight_records: 10, ..Options::default() };
    let rig = Rig::new(options, hanging(|offset| offset < 5));
    let (log, store) = (Log::of((0..5).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    assert_eq!(handle.status().await.blocked, None);
    let stuck = Rig::new(Options { max_in_flight_records: 10, ..Options::default() }, hanging(|_| true));
    let (log, store) = (Log::of((3..100_000).map(record)), Store::default());
    let blocked = stuck.partition(1, &log, &store);
    sleep_ms(100).await;
    let status = blocked.status().await;
    assert_eq!((status.unfinished, status.blocked), (10, Some(Blocked::MaxInFlightRecords)));
    assert_eq!(status.oldest.unwrap().offset, Offset(3));
    assert_eq!(status.position, Offset(13));
    assert_eq!(log.asked().len(), 1, "the source is not asked again");
    let series = stuck.scrape();
    assert_eq!(series[r#"mqgate_intake_blocked{group="g",topic="t",partition="1"}"#], 1.0);
    assert_eq!(series[r#"mqgate_cursor_offset{group="g",topic="t",partition="1"}"#], 3.0);
    drop((handle, blocked));
}

#[tokio::test(start_paused = true)]
async fn bytes_are_bounded_and_one_event_of_any_size_comes_in() {
    let options = Options { max_in_flight_bytes: 1000, ..Options::default() };
    let rig = Rig::new(options, crate::rig::after(Duration::from_secs(1), |_, _| Outcome::Done));
    let (log, store) = (Log::of([sized(0, 600), sized(1, 300), sized(2, 200), sized(3, 1 << 30), sized(4, 10)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    let status = handle.status().await;
    assert_eq!((status.unfinished, status.unfinished_bytes, status.blocked), (2, 900, Some(Blocked::MaxInFlightBytes)));
    sleep_ms(10_000).await;
    assert_eq!(rig.ledger.started(), [0, 1, 2, 3, 4]);
    let at: Vec<_> = (0..5).map(|offset| rig.started_ms(offset)[0] / 1000).collect();
    assert_eq!(at, [0, 0, 1, 2, 3], "the large one comes alone");
    assert_eq!(store.cursor(), 5);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn all_partitions_of_a_task_stay_within_its_budget_but_for_one_event_each() {
    let rig = Rig::with(Options::default(), hanging(|_| true), Box::new(|_| Ok(())), 1000);
    let logs: Vec<_> = (0..4).map(|_| Log::of((0..100).map(|offset| sized(offset, 300)))).collect();
    let store = Store::default();
    let handles: Vec<_> = (0..).zip(&logs).map(|(number, log)| rig.partition(number, log, &store)).collect();
    sleep_ms(100).await;
    let mut unfinished = Vec::new();
    for handle in &handles {
        let status = handle.status().await;
        assert_eq!(status.blocked, Some(Blocked::Budget));
        unfinished.push(status.unfinished);
    }
    assert_eq!(unfinished.iter().sum::<usize>(), 3 + 3, "1000 bytes are three events; three partitions have one without cover");
    assert!(unfinished.iter().all(|records| *records >= 1));
}

#[tokio::test(start_paused = true)]
async fn bytes_that_one_partition_frees_let_another_go_on() {
    let rig = Rig::with(Options::default(), hanging(|_| true), Box::new(|_| Ok(())), 1000);
    let (first, second) = (Log::of((0..3).map(|offset| sized(offset, 300))), Log::of((0..9).map(|offset| sized(offset, 300))));
    let store = Store::default();
    let holder = rig.partition(1, &first, &store);
    sleep_ms(10).await;
    let waiter = rig.partition(2, &second, &store);
    sleep_ms(10).await;
    assert_eq!(waiter.status().await.unfinished, 1);
    drop(holder);
    sleep_ms(10).await;
    assert_eq!(waiter.status().await.unfinished, 3);
}

#[tokio::test(start_paused = true)]
async fn bytes_are_free_as_soon_as_their_events_are_finished() {
    let script = crate::rig::after(Duration::from_secs(1), |_, _| Outcome::Done);
    let rig = Rig::with(Options::default(), script, Box::new(|_| Ok(())), 900);
    let logs = [0, 1].map(|_| Log::of((0..9).map(|offset| sized(offset, 300))));
    let store = Store::default();
    let first = rig.partition(1, &logs[0], &store);
    sleep_ms(500).await;
    let second = rig.partition(2, &logs[1], &store);
    sleep_ms(6000).await;
    assert_eq!(rig.ledger.calls().len(), 18, "three at a time once the first has finished, not one at a time");
    let at_once = rig.ledger.most_at_once(|_| true);
    assert!(at_once <= 4, "three fit, and one more may always come in: {at_once}");
    drop((first, second));
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_goes_on_without_cover_queues_for_none() {
    let script = Box::new(|offset, _| {
        Box::pin(async move {
            match offset {
                10 => sleep_ms(500).await,
                0..3 => sleep_ms(1000).await,
                _ => std::future::pending().await,
            }
            Outcome::Done
        }) as std::pin::Pin<Box<_>>
    });
    let rig = Rig::with(Options::default(), script, Box::new(|_| Ok(())), 900);
    let store = Store::default();
    let (first, second) = (Log::of((0..3).map(|offset| sized(offset, 300))), Log::of([sized(10, 300), sized(11, 300)]));
    let all = rig.partition(1, &first, &store);
    sleep_ms(10).await;
    let one = rig.partition(2, &second, &store);
    sleep_ms(800).await;
    assert_eq!(one.status().await.oldest.unwrap().offset, Offset(11));
    sleep_ms(500).await;
    first.append((3..6).map(|offset| sized(offset, 300)));
    sleep_ms(10).await;
    assert_eq!(all.status().await.unfinished, 3);
    drop((all, one));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_asked_for_by_what_is_free() {
    let rig = Rig::new(Options { max_in_flight_bytes: 4 << 20, ..Options::default() }, hanging(|_| true));
    let (log, store) = (Log::of((0..100_000).map(|offset| sized(offset, 100_000))), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    let asked = log.asked();
    assert_eq!(asked.first(), Some(&(1 << 20)));
    assert!(asked.is_sorted_by(|earlier, later| earlier >= later) && asked.iter().all(|bytes| *bytes >= 64 << 10), "{asked:?}");
    let status = handle.status().await;
    assert!(status.unfinished_bytes <= 4 << 20);
    assert_eq!(status.blocked, Some(Blocked::MaxInFlightBytes));
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_dead_receiver_is_asked_no_more_than_its_backoff_says_and_all_drains_once_it_heals() {
    let healed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let heals = Arc::clone(&healed);
    let script =
        crate::rig::after(Duration::from_millis(1), move |_, _| if heals.load(Ordering::Relaxed) { Outcome::Done } else { retry() });
    let rig = Rig::new(Options { retry_times: 100, max_in_flight_records: 50, ..Options::default() }, script);
    let (log, store) = (Log::of((0..2000).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(300_000).await;
    assert_eq!(handle.status().await.unfinished, 50);
    let attempts = rig.ledger.calls().len();
    assert!(attempts < 50 * 70, "50 events, every 5 to 10 s: {attempts}");
    healed.store(true, Ordering::Relaxed);
    sleep_ms(20_000).await;
    assert_eq!(store.cursor(), 2000);
    drop(handle);
}

/// Numbers without end, in one partition.
struct Numbers(u64);

impl Source for Numbers {
    type Record = u64;

    async fn next(&mut self, _max_bytes: usize) -> Result<Batch<u64>, SourceError> {
        if self.0 == BEHIND {
            std::future::pending::<()>().await;
        }
        let records: Vec<_> = (self.0..BEHIND.min(self.0 + 1000)).collect();
        self.0 += records.len() as u64;
        Ok(Batch { records, next_offset: Offset(self.0) })
    }
}

const BEHIND: u64 = 1_000_000;
const STUCK: u64 = 17;

struct ManyKeys;

impl Decoder for ManyKeys {
    type Record = u64;
    type Payload = ();

    fn decode(&self, number: u64, _types: &EventTypes) -> Decoded<()> {
        let key = if number == STUCK { Bytes::from_static(b"bad") } else { Bytes::copy_from_slice(&(number % 10_000).to_be_bytes()) };
        Decoded::Event(Event {
            offset: Offset(number),
            key: Some(key),
            time_ms: 0,
            event_type: EventType::OTHER,
            size_bytes: 100,
            payload: (),
        })
    }
}

struct Counting(Arc<AtomicU64>);

impl Processor<()> for Counting {
    async fn process(&self, event: &Event<()>, _attempt: Attempt) -> Outcome {
        self.0.fetch_add(1, Ordering::Relaxed);
        if event.offset.0 == STUCK { retry() } else { Outcome::Done }
    }
}

#[tokio::test(start_paused = true)]
async fn a_million_done_behind_one_stuck_record_cost_nothing() {
    let metrics = Metrics::register(&mut Registry::default());
    let (count, store) = (Arc::new(AtomicU64::new(0)), Store::default());
    let budget = Budget { max_bytes: 16 << 20 };
    let task = Task::new("g", Options::default(), ManyKeys, Counting(Arc::clone(&count)), budget, &metrics, Arc::new(SystemClock));
    let label = Label { topic: "t".into(), partition: 0 };
    let handle = task.start(label, Epoch(1), Progress::default(), Numbers(0), store.clone());
    while count.load(Ordering::Relaxed) < BEHIND {
        sleep_ms(100).await;
        let status = handle.status().await;
        assert!(status.progress.done.len() <= status.unfinished + 1);
        assert!(status.unfinished <= 10_000 && status.keys <= status.unfinished);
    }
    sleep_ms(2000).await;
    let status = handle.status().await;
    assert_eq!((status.unfinished, status.keys, status.unfinished_bytes), (1, 1, 100));
    let expected = Progress { cursor: Offset(STUCK), done: vec![STUCK + 1..BEHIND], ..Progress::default() };
    assert_eq!((status.done_above_cursor, status.blocked), (BEHIND - STUCK - 1, None));
    assert_eq!(store.stored().last(), Some(&expected), "and a restart repeats none of it");
    drop(handle);
}

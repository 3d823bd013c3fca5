//! Real threads, real time, random interference: no wakeup is lost, no promise broken.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use engine::event::{Attempt, Event, GivenUp, Outcome};
use engine::ids::{Epoch, Offset};
use engine::metrics::Metrics;
use engine::options::{Backoff, EventTypes, OnFailure, Options};
use engine::ports::{CommitError, CursorSink, Decoded, Decoder, Processor, Progress, SystemClock};
use engine::task::{Budget, Label, PartitionHandle, Permission, Task};
use prometheus_client::registry::Registry;
use tokio::time::{sleep, timeout};

use crate::rig::{Log, Record, failure, record};

const PARTITIONS: u64 = 6;
const RECORDS: u64 = 2000;
const KEYS: u64 = 40;
const LIMIT_OF_TYPE: usize = 2;

/// One partition's payload says which partition it is.
struct Numbered(u64);

struct Tagged;

impl Decoder for Tagged {
    type Record = Record;
    type Payload = Numbered;

    fn decode(&self, record: Record, types: &EventTypes) -> Decoded<Numbered> {
        let partition = record.time_ms as u64;
        let key = (record.offset % KEYS).to_be_bytes();
        Decoded::Event(Event {
            offset: Offset(record.offset),
            key: (!record.offset.is_multiple_of(7)).then(|| Bytes::copy_from_slice(&key)),
            time_ms: 0,
            event_type: types.resolve(record.event_type.as_bytes()),
            size_bytes: record.size_bytes,
            payload: Numbered(partition),
        })
    }
}

#[derive(Default)]
struct Key {
    open: bool,
    /// Offsets that succeeded, in that order, each once.
    succeeded: Vec<u64>,
}

#[derive(Default)]
struct Watch {
    keys: Mutex<HashMap<(u64, u64), Key>>,
    of_type: AtomicUsize,
    broken: Mutex<Vec<String>>,
    succeeded: Mutex<Vec<(u64, u64)>>,
}

impl Watch {
    fn expect(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.lock().unwrap().push(what());
        }
    }
}

/// An open attempt; closed by its end or by being cut.
struct Open<'a> {
    watch: &'a Watch,
    key: Option<(u64, u64)>,
    limited: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.watch.keys.lock().unwrap().get_mut(&key).unwrap().open = false;
        }
        self.watch.of_type.fetch_sub(usize::from(self.limited), Ordering::SeqCst);
    }
}

struct Random(Arc<Watch>);

impl Random {
    fn open(&self, event: &Event<Numbered>) -> Open<'_> {
        let (partition, offset) = (event.payload.0, event.offset.0);
        let key = event.key.as_ref().map(|_| (partition, offset % KEYS));
        if let Some(key) = key {
            let mut keys = self.0.keys.lock().unwrap();
            let state = keys.entry(key).or_default();
            self.0.expect(!state.open, || format!("{partition}/{offset}: two attempts of one key"));
            let first = (0..offset).rev().find(|earlier| earlier % KEYS == offset % KEYS && earlier % 7 > 0);
            let in_order = first.is_none_or(|first| state.succeeded.contains(&first));
            self.0.expect(in_order, || format!("{partition}/{offset} overtakes {first:?}"));
            state.open = true;
        }
        let limited = event.event_type.0 == 0;
        let of_type = self.0.of_type.fetch_add(usize::from(limited), Ordering::SeqCst);
        self.0.expect(!limited || of_type < LIMIT_OF_TYPE, || "more of a type than its limit".to_owned());
        Open { watch: &self.0, key, limited }
    }
}

impl Processor<Numbered> for Random {
    async fn process(&self, event: &Event<Numbered>, _attempt: Attempt) -> Outcome {
        let open = self.open(event);
        match rand::random_range(0..10) {
            0 => sleep(Duration::from_millis(2)).await,
            1..5 => tokio::task::yield_now().await,
            _ => {}
        }
        let outcome = match rand::random_range(0..100) {
            0..8 => Outcome::Retry { not_before: None, failure: failure("told") },
            8 => Outcome::Failed(failure("told")),
            9 => Outcome::Cut,
            _ => Outcome::Done,
        };
        if outcome == Outcome::Done {
            let (partition, offset) = (event.payload.0, event.offset.0);
            if let Some(key) = open.key {
                self.0.keys.lock().unwrap().get_mut(&key).unwrap().succeeded.push(offset);
            }
            self.0.succeeded.lock().unwrap().push((partition, offset));
        }
        outcome
    }

    async fn bypass(&self, _event: &Event<Numbered>, _given_up: &GivenUp) -> Result<(), String> {
        Err("nothing is bypassed here".into())
    }
}

/// Never goes back; sometimes does not answer at once, or fails.
#[derive(Clone, Default)]
struct Cursor(Arc<Mutex<Progress>>, Arc<AtomicBool>);

impl CursorSink for Cursor {
    async fn commit(&self, progress: Progress) -> Result<(), CommitError> {
        match rand::random_range(0..10) {
            0 => sleep(Duration::from_millis(3)).await,
            1 => return Err(CommitError::Again("told".into())),
            _ => {}
        }
        let mut stored = self.0.lock().unwrap();
        self.1.fetch_or(progress.cursor < stored.cursor, Ordering::SeqCst);
        *stored = progress;
        Ok(())
    }
}

struct Partition {
    number: u64,
    epoch: u64,
    log: Log,
    cursor: Cursor,
    handle: Option<PartitionHandle>,
}

impl Partition {
    fn new(number: u64) -> Self {
        let event_type = |offset: u64| if offset.is_multiple_of(5) { "limited" } else { "free" };
        let size_bytes = |offset: u64| 50 + (offset as usize * 37) % 400;
        let records = (0..RECORDS).map(|offset| Record {
            time_ms: number as i64,
            event_type: event_type(offset),
            size_bytes: size_bytes(offset),
            ..record(offset)
        });
        Self { number, epoch: 0, log: Log::of(records), cursor: Cursor::default(), handle: None }
    }

    fn start(&mut self, task: &Task<Tagged, Random>) {
        self.epoch += 1;
        let from = self.cursor.0.lock().unwrap().clone();
        let label = Label { topic: "t".into(), partition: self.number as u32 };
        let source = self.log.reader(from.cursor.0);
        self.handle = Some(task.start(label, Epoch(self.epoch), from, source, self.cursor.clone()));
    }

    async fn disturb(&mut self, task: &Task<Tagged, Random>) {
        let Some(handle) = &self.handle else { return };
        match rand::random_range(0..4) {
            0 => handle.set_permission(Permission::Pause),
            1 => handle.set_permission(Permission::Cut),
            2 => handle.set_permission(Permission::Run),
            _ => {
                let grace = Duration::from_millis(rand::random_range(0..3));
                let progress = self.handle.take().unwrap().release(grace).await;
                assert!(progress.cursor >= self.cursor.0.lock().unwrap().cursor);
                *self.cursor.0.lock().unwrap() = progress;
                self.start(task);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_overtaken_or_stuck_whatever_interferes() {
    let options = Options {
        worker_num: 8,
        retry_times: 2,
        backoff: Backoff { initial: Duration::from_millis(1), max: Duration::from_millis(4) },
        on_failure: OnFailure::AnotherRound { sleep: Duration::from_millis(1) },
        processing_timeout: Some(Duration::from_millis(50)),
        max_in_flight_records: 150,
        max_in_flight_bytes: 20_000,
        commit_interval: Duration::from_millis(5),
        max_unstored_completions: 40,
        event_types: EventTypes::new(vec![("limited".into(), Some(LIMIT_OF_TYPE)), ("free".into(), None)]),
        ..Options::default()
    };
    let watch = Arc::new(Watch::default());
    let metrics = Metrics::register(&mut Registry::default());
    let budget = Budget { max_bytes: 30_000 };
    let task = Task::new("g", options, Tagged, Random(Arc::clone(&watch)), budget, &metrics, Arc::new(SystemClock));
    let mut partitions: Vec<_> = (0..PARTITIONS).map(Partition::new).collect();
    partitions.iter_mut().for_each(|partition| partition.start(&task));
    for _ in 0..300 {
        let which = rand::random_range(0..partitions.len());
        partitions[which].disturb(&task).await;
        sleep(Duration::from_millis(2)).await;
    }
    for partition in &partitions {
        partition.handle.as_ref().unwrap().set_permission(Permission::Run);
    }
    for partition in &mut partitions {
        let stored = Arc::clone(&partition.cursor.0);
        let at_end = async {
            while stored.lock().unwrap().cursor.0 < RECORDS {
                sleep(Duration::from_millis(5)).await;
            }
        };
        if timeout(Duration::from_secs(30), at_end).await.is_err() {
            panic!("partition {} is stuck: {:?}", partition.number, partition.handle.as_ref().unwrap().status().await);
        }
        assert!(!partition.cursor.1.load(Ordering::SeqCst), "a cursor went back");
    }
    assert_eq!(*watch.broken.lock().unwrap(), Vec::<String>::new());
    let mut succeeded = watch.succeeded.lock().unwrap().clone();
    succeeded.sort_unstable();
    succeeded.dedup();
    assert_eq!(succeeded.len() as u64, PARTITIONS * RECORDS);
}

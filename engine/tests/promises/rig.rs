//! A log in memory, a processor that follows a script and keeps a ledger, a sink that remembers.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use engine::event::{Attempt, Event, EventType, Failure, GivenUp, Outcome};
use engine::ids::{Epoch, Offset};
use engine::metrics::Metrics;
use engine::options::{EventTypes, Options};
use engine::ports::{Batch, CommitError, CursorSink, Decoded, Decoder, Gate, Processor, Progress, Source, SourceError, WallClock};
use engine::task::{Budget, Label, PartitionHandle, Task};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub struct Record {
    pub offset: u64,
    pub key: Option<&'static str>,
    pub event_type: &'static str,
    pub time_ms: i64,
    pub size_bytes: usize,
}

pub fn record(offset: u64) -> Record {
    Record { offset, key: None, event_type: "other", time_ms: 0, size_bytes: 100 }
}

pub fn keyed(offset: u64, key: &'static str) -> Record {
    Record { key: Some(key), ..record(offset) }
}

/// One partition's log.
#[derive(Clone, Default)]
pub struct Log(Arc<LogInner>);

#[derive(Default)]
struct LogInner {
    records: Mutex<Vec<Record>>,
    end: Mutex<(u64, Option<SourceError>)>,
    grown: Notify,
    asked: Mutex<Vec<usize>>,
}

impl Log {
    pub fn of(records: impl IntoIterator<Item = Record>) -> Self {
        let log = Self::default();
        log.append(records);
        log
    }

    pub fn append(&self, records: impl IntoIterator<Item = Record>) {
        self.0.records.lock().unwrap().extend(records);
        let last = self.0.records.lock().unwrap().last().map_or(0, |last| last.offset + 1);
        self.end_at(last);
    }

    /// Control records up to there.
    pub fn end_at(&self, end: u64) {
        let mut place = self.0.end.lock().unwrap();
        place.0 = place.0.max(end);
        self.0.grown.notify_one();
    }

    pub fn fail(&self, error: &str) {
        self.end_with(SourceError::Failed(error.into()));
    }

    pub fn end_with(&self, error: SourceError) {
        self.0.end.lock().unwrap().1 = Some(error);
        self.0.grown.notify_one();
    }

    /// What `max_bytes` the source was asked with, so far.
    pub fn asked(&self) -> Vec<usize> {
        self.0.asked.lock().unwrap().clone()
    }

    pub fn reader(&self, from: u64) -> Reader {
        Reader { log: self.clone(), position: from }
    }
}

pub struct Reader {
    log: Log,
    position: u64,
}

impl Source for Reader {
    type Record = Record;

    async fn next(&mut self, max_bytes: usize) -> Result<Batch<Record>, SourceError> {
        self.log.0.asked.lock().unwrap().push(max_bytes);
        loop {
            let (end, failed) = self.log.0.end.lock().unwrap().clone();
            let mut room = max_bytes;
            let records: Vec<_> = {
                let all = self.log.0.records.lock().unwrap();
                let from = all.partition_point(|record| record.offset < self.position);
                let fits = |record: &&Record| {
                    let fits = record.size_bytes <= room || room == max_bytes;
                    room = room.saturating_sub(record.size_bytes);
                    fits
                };
                all[from..].iter().take_while(fits).cloned().collect()
            };
            let all_read = records.last().map_or(self.position, |last| last.offset + 1);
            let more = self.log.0.records.lock().unwrap().last().is_some_and(|last| last.offset >= all_read);
            let next = if more { all_read } else { end.max(all_read) };
            if next > self.position {
                self.position = next;
                return Ok(Batch { records, next_offset: Offset(next) });
            }
            if let Some(error) = failed {
                return Err(error);
            }
            self.log.0.grown.notified().await;
        }
    }
}

pub struct ByRecord;

impl Decoder for ByRecord {
    type Record = Record;
    type Payload = ();

    fn decode(&self, record: Record, types: &EventTypes) -> Decoded<()> {
        if record.event_type == "skip" {
            return Decoded::Skip { offset: Offset(record.offset), reason: "unwanted" };
        }
        assert_ne!(record.event_type, "broken decoder");
        Decoded::Event(Event {
            offset: Offset(record.offset),
            key: record.key.map(|key| Bytes::from_static(key.as_bytes())),
            time_ms: record.time_ms,
            event_type: types.resolve(record.event_type.as_bytes()),
            size_bytes: record.size_bytes,
            payload: (),
        })
    }
}

/// One attempt as the processor saw it.
#[derive(Clone, Debug)]
pub struct Call {
    pub partition: u64,
    pub offset: u64,
    pub event_type: EventType,
    pub attempt: Attempt,
    pub started: Instant,
    /// Unset while it runs, and for ever if it was dropped.
    pub ended: Option<Instant>,
}

#[derive(Default)]
pub struct Ledger {
    pub calls: Mutex<Vec<Call>>,
    pub given_up: Mutex<Vec<(u64, GivenUp, Instant)>>,
}

impl Ledger {
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    pub fn of(&self, offset: u64) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.offset == offset).collect()
    }

    /// Offsets in the order in which their attempts started.
    pub fn started(&self) -> Vec<u64> {
        self.calls().iter().map(|call| call.offset).collect()
    }

    pub fn given_up(&self) -> Vec<u64> {
        self.given_up.lock().unwrap().iter().map(|(offset, ..)| *offset).collect()
    }

    /// The most attempts that ran at one time, among those that match.
    pub fn most_at_once(&self, which: impl Fn(&Call) -> bool) -> usize {
        let calls: Vec<_> = self.calls().into_iter().filter(which).collect();
        let open_at = |at: Instant| calls.iter().filter(|call| call.started <= at && call.ended.is_none_or(|ended| ended > at)).count();
        calls.iter().map(|call| open_at(call.started)).max().unwrap_or(0)
    }
}

type Answer = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Script = Box<dyn Fn(u64, Attempt) -> Answer + Send + Sync>;
type BypassScript = Box<dyn Fn(u64) -> Result<(), String> + Send + Sync>;

pub struct Scripted {
    pub ledger: Arc<Ledger>,
    pub script: Script,
    pub bypass: BypassScript,
}

impl Processor<()> for Scripted {
    async fn process(&self, event: &Event<()>, attempt: Attempt) -> Outcome {
        let (offset, partition) = (event.offset.0, attempt.epoch.0);
        let call = Call { partition, offset, event_type: event.event_type, attempt, started: Instant::now(), ended: None };
        let at = {
            let mut calls = self.ledger.calls.lock().unwrap();
            calls.push(call);
            calls.len() - 1
        };
        let outcome = (self.script)(offset, attempt).await;
        self.ledger.calls.lock().unwrap()[at].ended = Some(Instant::now());
        outcome
    }

    async fn bypass(&self, event: &Event<()>, given_up: &GivenUp) -> Result<(), String> {
        self.ledger.given_up.lock().unwrap().push((event.offset.0, given_up.clone(), Instant::now()));
        (self.bypass)(event.offset.0)
    }
}

pub fn failure(reason: &'static str) -> Failure {
    Failure { reason, code: Some(500), detail: "told to fail".into() }
}

pub fn retry() -> Outcome {
    Outcome::Retry { not_before: None, failure: failure("status") }
}

/// A script whose every attempt takes `takes` and then answers.
pub fn after(takes: Duration, answer: impl Fn(u64, Attempt) -> Outcome + Send + Sync + 'static) -> Script {
    Box::new(move |offset, attempt| {
        let outcome = answer(offset, attempt);
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            outcome
        })
    })
}

/// A script that hangs for ever where `hangs` says so, and succeeds at once elsewhere.
pub fn hanging(hangs: impl Fn(u64) -> bool + Send + Sync + 'static) -> Script {
    Box::new(move |offset, _| {
        let hangs = hangs(offset);
        Box::pin(async move { if hangs { std::future::pending().await } else { Outcome::Done } })
    })
}

/// Remembers what was stored; answers as told.
#[derive(Clone)]
pub struct Store(Arc<StoreInner>);

struct StoreInner {
    stored: Mutex<Vec<(Instant, Progress)>>,
    tried: Mutex<Vec<Instant>>,
    answer: Mutex<Result<(), CommitError>>,
    takes: Mutex<Duration>,
    least_interval: Mutex<Duration>,
}

impl Default for Store {
    fn default() -> Self {
        Self(Arc::new(StoreInner {
            stored: Mutex::default(),
            tried: Mutex::default(),
            answer: Mutex::new(Ok(())),
            least_interval: Mutex::default(),
            takes: Mutex::default(),
        }))
    }
}

impl Store {
    pub fn stored(&self) -> Vec<Progress> {
        self.0.stored.lock().unwrap().iter().map(|(_, progress)| progress.clone()).collect()
    }

    pub fn cursor(&self) -> u64 {
        self.stored().last().map_or(0, |progress| progress.cursor.0)
    }

    pub fn tried_at(&self) -> Vec<Instant> {
        self.0.tried.lock().unwrap().clone()
    }

    pub fn answer(&self, answer: Result<(), CommitError>) {
        *self.0.answer.lock().unwrap() = answer;
    }

    pub fn take(&self, takes: Duration) {
        *self.0.takes.lock().unwrap() = takes;
    }

    pub fn ask_for(&self, least_interval: Duration) {
        *self.0.least_interval.lock().unwrap() = least_interval;
    }
}

impl CursorSink for Store {
    async fn commit(&self, progress: Progress) -> Result<(), CommitError> {
        self.0.tried.lock().unwrap().push(Instant::now());
        let takes = *self.0.takes.lock().unwrap();
        if takes > Duration::ZERO {
            tokio::time::sleep(takes).await;
        }
        self.0.answer.lock().unwrap().clone()?;
        self.0.stored.lock().unwrap().push((Instant::now(), progress));
        Ok(())
    }

    fn least_interval(&self) -> Duration {
        *self.0.least_interval.lock().unwrap()
    }
}

/// Wall time that goes with tokio's paused time. With a delay, every look of a partition loop at
/// the world reads it once.
pub struct TestClock {
    started: Instant,
    read: AtomicUsize,
}

impl TestClock {
    pub fn read(&self) -> usize {
        self.read.load(Relaxed)
    }
}

pub const WALL_START_MS: i64 = 1_700_000_000_000;

impl WallClock for TestClock {
    fn now(&self) -> SystemTime {
        self.read.fetch_add(1, Relaxed);
        UNIX_EPOCH + Duration::from_millis(WALL_START_MS as u64) + self.started.elapsed()
    }
}

/// A task with its ledger and registry.
pub struct Rig {
    pub task: Task<ByRecord, Scripted>,
    pub ledger: Arc<Ledger>,
    pub registry: Registry,
    pub started: Instant,
    pub clock: Arc<TestClock>,
}

impl Rig {
    pub fn new(options: Options, script: Script) -> Self {
        Self::with(options, script, Box::new(|_| Ok(())), usize::MAX)
    }

    pub fn with(options: Options, script: Script, bypass: BypassScript, budget_bytes: usize) -> Self {
        let mut registry = Registry::with_prefix("mqgate");
        let metrics = Metrics::register(&mut registry);
        let ledger = Arc::new(Ledger::default());
        let processor = Scripted { ledger: Arc::clone(&ledger), script, bypass };
        let started = Instant::now();
        let clock = Arc::new(TestClock { started, read: AtomicUsize::new(0) });
        let task = Task::new(
            "g",
            options,
            ByRecord,
            processor,
            Budget { max_bytes: budget_bytes },
            &metrics,
            Arc::clone(&clock) as Arc<dyn WallClock>,
        );
        Self { task, ledger, registry, started, clock }
    }

    /// A partition from the start of the log; its number is its epoch too.
    pub fn partition(&self, number: u64, log: &Log, store: &Store) -> PartitionHandle {
        self.resume(number, log, store, Progress::default())
    }

    pub fn resume(&self, number: u64, log: &Log, store: &Store, from: Progress) -> PartitionHandle {
        let label = Label { topic: "t".into(), partition: number as u32 };
        let source = log.reader(from.cursor.0);
        self.task.start(label, Epoch(number), from, source, store.clone())
    }

    pub fn behind(&self, gate: impl Gate, number: u64, log: &Log, store: &Store) -> PartitionHandle {
        let label = Label { topic: "t".into(), partition: number as u32 };
        self.task.start_behind(gate, label, Epoch(number), Progress::default(), log.reader(0), store.clone())
    }

    /// Since the rig was built, in milliseconds.
    pub fn ms(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.started).as_millis() as u64
    }

    pub fn started_ms(&self, offset: u64) -> Vec<u64> {
        self.ledger.of(offset).iter().map(|call| self.ms(call.started)).collect()
    }

    /// Series of the registry, by name and labels.
    pub fn scrape(&self) -> HashMap<String, f64> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| line.rsplit_once(' ')).map(|(series, value)| (series.into(), value.parse().unwrap())).collect()
    }
}

pub async fn sleep_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

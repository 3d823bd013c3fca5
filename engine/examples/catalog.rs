//! A data catalog that follows changes of its sources: the engine without HTTP and without a queue.
//!
//! Two event types have a processor each. Tables are indexed slowly, so at most two at a time;
//! owners are cheap. One index is busy and asks to come back later, one change is nonsense and is
//! given up. The program has a metric of its own beside the engine's.
//!
//! `cargo run -p engine --example catalog`

use std::io::{self, Write};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use engine::event::{Attempt, Event, EventType, Failure, GivenUp, Outcome};
use engine::ids::{Epoch, Offset};
use engine::metrics::Metrics;
use engine::options::{Backoff, EventTypes, OnFailure, Options};
use engine::ports::{Batch, CommitError, CursorSink, Decoded, Decoder, Processor, Progress, Source, SourceError, SystemClock};
use engine::task::{Budget, Label, Task};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// What happened, as lines of text: `kind subject detail`.
const CHANGES: [&str; 8] = [
    "table orders created",
    "table customers created",
    "table invoices created",
    "owner orders alice",
    "owner orders bob",
    "owner nothing nobody",
    "comment orders not-for-us",
    "table orders widened",
];

const TABLE: EventType = EventType(0);
const OWNER: EventType = EventType(1);

/// A log in memory: everything at once, then nothing more.
struct Changes {
    next: u64,
}

impl Source for Changes {
    type Record = (Offset, &'static str);

    async fn next(&mut self, _max_bytes: usize) -> Result<Batch<Self::Record>, SourceError> {
        let records: Vec<_> = (0..).map(Offset).zip(CHANGES).skip(self.next as usize).collect();
        if records.is_empty() {
            std::future::pending::<()>().await;
        }
        self.next += records.len() as u64;
        Ok(Batch { records, next_offset: Offset(self.next) })
    }
}

struct Change {
    subject: &'static str,
    detail: &'static str,
}

/// Changes of one subject stay in order: the subject is the key.
struct ByLine;

impl Decoder for ByLine {
    type Record = (Offset, &'static str);
    type Payload = Change;

    fn decode(&self, (offset, line): Self::Record, types: &EventTypes) -> Decoded<Change> {
        let [kind, subject, detail] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Decoded::Skip { offset, reason: "unreadable" };
        };
        let event_type = types.resolve(kind.as_bytes());
        if event_type == EventType::OTHER {
            return Decoded::Skip { offset, reason: "not_for_us" };
        }
        let key = Some(Bytes::from_static(subject.as_bytes()));
        Decoded::Event(Event { offset, key, time_ms: 0, event_type, size_bytes: line.len(), payload: Change { subject, detail } })
    }
}

type Out = Arc<Mutex<dyn Write + Send>>;

fn say(out: &Out, line: std::fmt::Arguments<'_>) {
    writeln!(out.lock().expect("nobody panics while writing"), "{line}").expect("the output takes lines");
}

/// Indexes tables; takes its time.
struct Tables {
    out: Out,
    indexed: Gauge<u64, AtomicU64>,
}

impl Tables {
    async fn index(&self, change: &Change, attempt: Attempt) -> Outcome {
        sleep(Duration::from_millis(20)).await;
        if change.subject == "customers" && attempt.number == 0 {
            say(&self.out, format_args!("table {}: the index is busy, later", change.subject));
            let failure = Failure { reason: "busy", code: Some(503), detail: "index busy".into() };
            return Outcome::Retry { not_before: Some(Instant::now() + Duration::from_millis(100)), failure };
        }
        say(&self.out, format_args!("table {}: {} (attempt {})", change.subject, change.detail, attempt.number));
        self.indexed.inc();
        Outcome::Done
    }
}

/// Keeps owners; refuses those of what it does not know.
struct Owners {
    out: Out,
}

impl Owners {
    fn set(&self, change: &Change) -> Outcome {
        if change.subject == "nothing" {
            return Outcome::Failed(Failure { reason: "unknown_subject", code: None, detail: "no such table".into() });
        }
        say(&self.out, format_args!("owner of {}: {}", change.subject, change.detail));
        Outcome::Done
    }
}

/// One processor for each event type.
struct Catalog {
    tables: Tables,
    owners: Owners,
}

impl Processor<Change> for Catalog {
    async fn process(&self, event: &Event<Change>, attempt: Attempt) -> Outcome {
        match event.event_type {
            TABLE => self.tables.index(&event.payload, attempt).await,
            OWNER => self.owners.set(&event.payload),
            other => unreachable!("the decoder lets no {other:?} through"),
        }
    }

    async fn bypass(&self, event: &Event<Change>, given_up: &GivenUp) -> Result<(), String> {
        let (offset, failure) = (event.offset, &given_up.failure);
        say(&self.owners.out, format_args!("offset {offset} given up after {} attempt(s): {}", given_up.attempts, failure.detail));
        Ok(())
    }
}

/// A real program writes this to its database.
struct Remembered(watch::Sender<Offset>);

impl CursorSink for Remembered {
    async fn commit(&self, progress: Progress) -> Result<(), CommitError> {
        self.0.send_replace(progress.cursor);
        Ok(())
    }
}

/// Follows all changes, then returns the metrics as a scrape would show them.
pub async fn run(out: Out) -> String {
    let mut registry = Registry::with_prefix("catalog");
    let metrics = Metrics::register(&mut registry);
    let indexed = Gauge::default();
    registry.register("indexed_tables", "Tables indexed since the start", indexed.clone());

    let options = Options {
        retry_times: 2,
        backoff: Backoff { initial: Duration::from_millis(10), max: Duration::from_millis(100) },
        on_failure: OnFailure::Bypass,
        commit_interval: Duration::from_millis(50),
        event_types: EventTypes::new(vec![("table".into(), Some(2)), ("owner".into(), None)]),
        ..Options::default()
    };
    let catalog = Catalog { tables: Tables { out: Arc::clone(&out), indexed }, owners: Owners { out: Arc::clone(&out) } };
    let task = Task::new("catalog", options, ByLine, catalog, Budget { max_bytes: 1 << 20 }, &metrics, Arc::new(SystemClock));

    let (stored, mut cursor) = watch::channel(Offset(0));
    let label = Label { topic: "changes".into(), partition: 0 };
    let partition = task.start(label, Epoch(1), Progress::default(), Changes { next: 0 }, Remembered(stored));
    let end = Offset(CHANGES.len() as u64);
    cursor.wait_for(|cursor| *cursor == end).await.expect("the partition runs");

    let mut scrape = String::new();
    prometheus_client::encoding::text::encode(&mut scrape, &registry).expect("a string takes any text");
    let progress = partition.release(Duration::from_secs(1)).await;
    say(&out, format_args!("released at offset {}", progress.cursor));
    scrape
}

#[tokio::main]
#[allow(dead_code)] // The test of this example includes the file and calls `run`.
async fn main() {
    let scrape = run(Arc::new(Mutex::new(io::stdout()))).await;
    println!("\n{scrape}");
}

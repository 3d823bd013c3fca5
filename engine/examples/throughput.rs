//! What the engine itself costs: CPU time per event, with a processor that answers at once.
//!
//! `cargo run --release -p engine --example throughput [EVENTS] [KEYS] [PARTITIONS]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::event::{Attempt, Event, EventType, Outcome};
use engine::ids::{Epoch, Offset};
use engine::metrics::Metrics;
use engine::options::{EventTypes, Options};
use engine::ports::{Batch, CommitError, CursorSink, Decoded, Decoder, Processor, Progress, Source, SourceError, SystemClock};
use engine::task::{Budget, Label, Task};
use prometheus_client::registry::Registry;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

const VALUE_BYTES: usize = 1024;
const RECORDS_PER_BATCH: u64 = 500;

/// Yields numbered records until the end, then waits for ever.
struct Numbers {
    next: u64,
    end: u64,
    value: Bytes,
}

impl Source for Numbers {
    type Record = (u64, Bytes);

    async fn next(&mut self, _max_bytes: usize) -> Result<Batch<Self::Record>, SourceError> {
        if self.next == self.end {
            std::future::pending::<()>().await;
        }
        let until = self.end.min(self.next + RECORDS_PER_BATCH);
        let records = (self.next..until).map(|number| (number, self.value.clone())).collect();
        self.next = until;
        Ok(Batch { records, next_offset: Offset(until) })
    }
}

struct Keys(Vec<Bytes>);

impl Decoder for Keys {
    type Record = (u64, Bytes);
    type Payload = Bytes;

    fn decode(&self, (number, value): Self::Record, _types: &EventTypes) -> Decoded<Bytes> {
        // Spread, so that neighbours have different keys.
        let key = self.0[(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize % self.0.len()].clone();
        Decoded::Event(Event {
            offset: Offset(number),
            key: Some(key),
            time_ms: 0,
            event_type: EventType::OTHER,
            size_bytes: VALUE_BYTES,
            payload: value,
        })
    }
}

struct Instantly;

impl Processor<Bytes> for Instantly {
    async fn process(&self, _event: &Event<Bytes>, _attempt: Attempt) -> Outcome {
        Outcome::Done
    }
}

/// Says when every partition has come to its end.
#[derive(Clone)]
struct Ends {
    left: Arc<AtomicU64>,
    all: Arc<Notify>,
    end: u64,
}

impl CursorSink for Ends {
    async fn commit(&self, progress: Progress) -> Result<(), CommitError> {
        if progress.cursor.0 == self.end && self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all.notify_one();
        }
        Ok(())
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let (events, keys, partitions) = (numbers.next().unwrap_or(2_000_000), numbers.next().unwrap_or(10_000), numbers.next().unwrap_or(8));
    let metrics = Metrics::register(&mut Registry::default());
    let keys = Keys((0..keys).map(|key| Bytes::from(format!("key-{key}"))).collect());
    let options = Options { commit_interval: Duration::from_millis(100), worker_num: 100, ..Options::default() };
    let task = Task::new("bench", options, keys, Instantly, Budget { max_bytes: 64 << 20 }, &metrics, Arc::new(SystemClock));
    let end = events / partitions;
    let ends = Ends { left: Arc::new(AtomicU64::new(partitions)), all: Arc::new(Notify::new()), end };
    let (began, cpu_before) = (Instant::now(), cpu());
    let start = |partition: u64| {
        let label = Label { topic: "numbers".into(), partition: partition as u32 };
        let source = Numbers { next: 0, end, value: Bytes::from(vec![0; VALUE_BYTES]) };
        task.start(label, Epoch(1), Progress::default(), source, ends.clone())
    };
    let handles: Vec<_> = (0..partitions).map(start).collect();
    ends.all.notified().await;
    let (took, cpu_took) = (began.elapsed(), cpu() - cpu_before);
    let done = (end * partitions) as f64;
    println!("{:.0} events/s, {:.3} µs CPU per event", done / took.as_secs_f64(), cpu_took.as_secs_f64() * 1e6 / done);
    drop(handles);
}

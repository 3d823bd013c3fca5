//! The log against a list: whatever is done to it in whatever order, it holds what the list holds.

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tokio::runtime::Runtime;

use super::*;

const PARTITIONS: u32 = 2;
const SECOND: i64 = 1_000;
const RETENTION: i64 = 60 * SECOND;

#[derive(Debug, Clone, Default)]
struct Model {
    now: i64,
    /// `None`: there is no topic.
    topic: Option<[Vec<Entry>; PARTITIONS as usize]>,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    timestamp: i64,
    value: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Step {
    /// Offsets into the past, sizes, and a partition: sent without waiting in between.
    Append(Vec<(i64, usize, u32)>),
    Read {
        partition: u32,
        from: prop::sample::Index,
        max_bytes: usize,
    },
    FindTime {
        partition: u32,
        time: i64,
    },
    Sleep(i64),
    Housekeep,
    Restart,
    /// As after `kill -9`.
    Kill,
    Delete,
    Create,
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self { now: 1_000_000, topic: Some(Default::default()) }).boxed()
    }

    fn transitions(model: &Self) -> BoxedStrategy<Step> {
        let partition = 0..PARTITIONS;
        let records = prop::collection::vec((-100 * SECOND..100 * SECOND, 0..300usize, partition.clone()), 1..20);
        let time = model.now - 200 * SECOND..model.now + 200 * SECOND;
        prop_oneof![
            10 => records.prop_map(Step::Append),
            5 => (partition.clone(), any::<prop::sample::Index>(), 1..5_000usize)
                .prop_map(|(partition, from, max_bytes)| Step::Read { partition, from, max_bytes }),
            3 => (partition, time).prop_map(|(partition, time)| Step::FindTime { partition, time }),
            2 => (0..3 * RETENTION).prop_map(Step::Sleep),
            3 => Just(Step::Housekeep),
            2 => Just(Step::Restart),
            1 => Just(Step::Kill),
            1 => Just(Step::Delete),
            1 => Just(Step::Create),
        ]
        .boxed()
    }

    fn apply(mut model: Self, step: &Step) -> Self {
        match step {
            Step::Append(records) => {
                for (n, (past, size, partition)) in records.iter().enumerate() {
                    if let Some(partitions) = &mut model.topic {
                        partitions[*partition as usize].push(entry(model.now, *past, *size, n));
                    }
                }
            }
            Step::Sleep(ms) => model.now += ms,
            Step::Delete => model.topic = None,
            Step::Create => drop(model.topic.get_or_insert_default()),
            Step::Read { .. } | Step::FindTime { .. } | Step::Housekeep | Step::Restart | Step::Kill => {}
        }
        model
    }
}

fn entry(now: i64, past: i64, size: usize, n: usize) -> Entry {
    Entry { timestamp: now + past, value: vec![u8::try_from(n).unwrap(); size] }
}

struct Real {
    runtime: Runtime,
    folder: TempDir,
    clock: SetClock,
    queue: Option<Arc<EmbeddedQueue>>,
}

impl Real {
    fn options(clock: &SetClock) -> Options {
        Options {
            segment_bytes: 2_000,
            retention: Duration::from_millis(RETENTION.cast_unsigned()),
            retention_bytes: Some(20_000),
            clock: clock.clock(),
            ..options()
        }
    }

    fn queue(&self) -> &EmbeddedQueue {
        self.queue.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        let queue = open(self.folder.path(), Self::options(&self.clock));
        queue.set_needs(Arc::new(NothingNeeded));
        self.queue = Some(queue);
    }

    fn watermarks(&self, partition: u32) -> Option<(u64, u64)> {
        let watermarks = self.runtime.block_on(self.queue().watermarks(&name("t"), Partition(partition)));
        watermarks.ok().map(|w| (w.first.0, w.end.0))
    }

    fn append(&self, model: &Model, records: &[(i64, usize, u32)]) {
        let now = self.clock.0.load(Ordering::Relaxed);
        let writes = records.iter().enumerate().map(|(n, (past, size, partition))| {
            let Entry { timestamp, value } = entry(now, *past, *size, n);
            let message = Message { partition: Some(Partition(*partition)), timestamp: Some(timestamp), ..message("t", value) };
            self.queue().produce(message, Ack::All)
        });
        let writes = writes.collect::<Vec<_>>();
        for write in writes {
            assert_eq!(self.runtime.block_on(write).is_ok(), model.topic.is_some());
        }
    }

    fn read(&self, partition: u32, from: u64, max_bytes: usize) -> Vec<Record> {
        self.runtime.block_on(async {
            let end = self.queue().watermarks(&name("t"), Partition(partition)).await.unwrap().end;
            let mut reader = Queue::open(self.queue(), &name("t"), Partition(partition), Offset(from), Epoch(1)).await.unwrap();
            let (mut at, mut records) = (Offset(from), Vec::new());
            while at < end {
                let batch = reader.next(max_bytes).await.unwrap();
                assert!(batch.next_offset > at && batch.end == end);
                at = batch.next_offset;
                records.extend(batch.records);
            }
            records
        })
    }
}

struct NothingNeeded;

impl Needs for NothingNeeded {
    fn lowest_needed(&self, _: &Topic, _: TopicId, _: Partition) -> Option<Offset> {
        None
    }
}

impl StateMachineTest for Real {
    type SystemUnderTest = Self;
    type Reference = Model;

    fn init_test(model: &Model) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let clock = SetClock::at(model.now);
        let mut real = Self { runtime, folder: tempfile::tempdir().unwrap(), clock, queue: None };
        real.reopen();
        real.runtime.block_on(real.queue().create_topic(&name("t"), PARTITIONS)).unwrap();
        real
    }

    fn apply(mut real: Self, model: &Model, step: Step) -> Self {
        real.clock.set(model.now);
        match step {
            Step::Append(records) => real.append(model, &records),
            Step::Read { partition, from, max_bytes } => {
                if let Some(partitions) = &model.topic {
                    let (first, end) = real.watermarks(partition).unwrap();
                    let from = first + from.index(usize::try_from(end - first + 1).unwrap()) as u64;
                    compare(&partitions[partition as usize], from, &real.read(partition, from, max_bytes));
                }
            }
            Step::FindTime { partition, time } => {
                if let Some(partitions) = &model.topic {
                    let (first, end) = real.watermarks(partition).unwrap();
                    let found = real.runtime.block_on(real.queue().offset_for_time(&name("t"), Partition(partition), time));
                    let expected = (first..end).find(|offset| partitions[partition as usize][*offset as usize].timestamp >= time);
                    assert_eq!(found.unwrap().0, expected.unwrap_or(end));
                }
            }
            Step::Sleep(_) => {}
            Step::Housekeep => real.runtime.block_on(real.queue().housekeep()),
            Step::Restart => {
                real.queue = None;
                real.reopen();
            }
            Step::Kill => {
                real.folder = copy(real.folder.path());
                real.queue = None;
                real.reopen();
            }
            Step::Delete => drop(real.runtime.block_on(real.queue().delete_topic(&name("t"))).unwrap()),
            Step::Create => drop(real.runtime.block_on(real.queue().create_topic(&name("t"), PARTITIONS))),
        }
        real
    }

    fn check_invariants(real: &Self, model: &Model) {
        for partition in 0..PARTITIONS {
            let watermarks = real.watermarks(partition);
            assert_eq!(watermarks.is_some(), model.topic.is_some());
            if let (Some((first, end)), Some(partitions)) = (watermarks, &model.topic) {
                let entries = &partitions[partition as usize];
                assert_eq!(end, entries.len() as u64);
                // Only what is old, or what is too much, is gone.
                let young = entries.iter().position(|entry| entry.timestamp >= model.now - RETENTION).unwrap_or(entries.len());
                let total: usize = partitions.iter().flatten().map(|entry| entry.value.len() + 20).sum();
                assert!(first <= young as u64 || total > 20_000, "{first} of {young}");
            }
        }
    }
}

fn compare(entries: &[Entry], from: u64, records: &[Record]) {
    let read: Vec<_> = records.iter().map(|r| (r.offset.0, r.timestamp, r.payload.value.as_deref().unwrap())).collect();
    let expected: Vec<_> = (from..).zip(&entries[usize::try_from(from).unwrap()..]).map(|(o, e)| (o, e.timestamp, &*e.value)).collect();
    assert_eq!(read, expected);
}

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn the_log_holds_what_a_list_would_hold(sequential 1..60 => Real);
}

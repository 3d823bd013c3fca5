//! Whatever happens, in whatever order: the promises of the core.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::time::Instant;

use crate::core::entry::Ticket;
use crate::core::state::Seen;
use crate::core::verdict::{End, Verdict};
use crate::core::{Core, Work};
use crate::event::{Event, EventType, Failure, Outcome};
use crate::ids::{Epoch, Offset};
use crate::options::{Backoff, EventTypes, OnFailure, Options, Order};
use crate::ports::Progress;

const MAX_RECORDS: usize = 12;
const MAX_BYTES: usize = 200;
const EPOCH: Epoch = Epoch(7);
const WALL_MS: i64 = 1_000_000;

#[derive(Clone, Debug)]
enum Step {
    Read {
        gap: u64,
        key: Option<u8>,
        size_bytes: usize,
        event_type: u16,
        age_ms: i64,
    },
    Start {
        lane: prop::sample::Index,
    },
    End {
        which: prop::sample::Index,
        how: How,
    },
    /// A result of another epoch, or one that came before.
    Stale {
        which: prop::sample::Index,
        epoch: bool,
    },
    Wait {
        ms: u64,
    },
    Pause,
    Resume,
    CutAll,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Well,
    Badly,
    BadlyForNow(u64),
    ForGood,
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![
        3 => Just(How::Well),
        2 => Just(How::Badly),
        1 => (0_u64..5000).prop_map(How::BadlyForNow),
        1 => Just(How::ForGood),
        1 => Just(How::Cut),
    ];
    let which = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0_u64..2, prop::option::of(0_u8..3), 1_usize..150, 0_u16..3, -3000_i64..3000)
            .prop_map(|(gap, key, size_bytes, event_type, age_ms)| Step::Read { gap, key, size_bytes, event_type, age_ms }),
        6 => which().prop_map(|lane| Step::Start { lane }),
        6 => (which(), how).prop_map(|(which, how)| Step::End { which, how }),
        1 => (which(), any::<bool>()).prop_map(|(which, epoch)| Step::Stale { which, epoch }),
        3 => (0_u64..1500).prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Pause),
        2 => Just(Step::Resume),
        1 => Just(Step::CutAll),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let order = prop_oneof![Just(Order::Key), Just(Order::Partition), Just(Order::None)];
    let on_failure = prop_oneof![Just(OnFailure::Bypass), Just(OnFailure::AnotherRound { sleep: Duration::from_millis(300) })];
    let timeout = prop::option::of((500_u64..3000).prop_map(Duration::from_millis));
    let delay = prop::option::of((1_u64..2000).prop_map(Duration::from_millis));
    (order, on_failure, 0_u32..3, timeout, delay).prop_map(|(order, on_failure, retry_times, processing_timeout, delay)| Options {
        order,
        on_failure,
        retry_times,
        processing_timeout,
        delay,
        max_in_flight_records: MAX_RECORDS,
        max_in_flight_bytes: MAX_BYTES,
        backoff: Backoff { initial: Duration::from_millis(50), max: Duration::from_millis(400) },
        event_types: EventTypes::new(vec![("free".into(), None), ("limited".into(), Some(1))]),
        ..Options::default()
    })
}

struct Known {
    key: Option<Bytes>,
    size_bytes: usize,
    not_before: Instant,
    finished: bool,
}

/// What the core should know, and what was seen of it.
struct World {
    core: Core<()>,
    options: Options,
    now: Instant,
    next: u64,
    known: BTreeMap<u64, Known>,
    /// Jobs in flight; `true`: a bypass.
    open: Vec<(Ticket, bool)>,
    closed: Vec<Ticket>,
    cursor: Offset,
    paused: bool,
}

impl World {
    fn new(options: Options) -> Self {
        let core = Core::new(Arc::new(options.clone()), EPOCH, Progress::default(), SmallRng::seed_from_u64(1));
        let (known, open, closed) = Default::default();
        Self { core, options, now: Instant::now(), next: 0, known, open, closed, cursor: Offset(0), paused: false }
    }

    fn wall_now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(WALL_MS as u64)
    }

    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Read { gap, key, size_bytes, event_type, age_ms } => self.read(gap, key, size_bytes, event_type, age_ms)?,
            Step::Start { lane } => drop(self.start(lane.index(self.core.lanes().len()))?),
            Step::End { which, how } if !self.open.is_empty() => {
                let open = self.open.swap_remove(which.index(self.open.len()));
                self.end(open, how)?;
            }
            Step::Stale { which, epoch } => self.stale(which, epoch)?,
            Step::Wait { ms } => {
                self.now += Duration::from_millis(ms);
                self.tick()?;
            }
            Step::Pause => {
                self.core.pause(self.now);
                self.paused = true;
            }
            Step::Resume => {
                self.core.resume(self.now);
                self.paused = false;
            }
            Step::CutAll => {
                self.core.cut_all(self.now);
                self.closed.extend(self.open.drain(..).map(|(ticket, _)| ticket));
            }
            Step::End { .. } => {}
        }
        self.holds()
    }

    fn read(&mut self, gap: u64, key: Option<u8>, size_bytes: usize, event_type: u16, age_ms: i64) -> Result<(), TestCaseError> {
        let bytes: usize = self.unfinished().map(|(_, known)| known.size_bytes).sum();
        let records = self.unfinished().count();
        let full = records > 0 && (records >= MAX_RECORDS || bytes + size_bytes > MAX_BYTES);
        prop_assert_eq!(self.core.full(size_bytes).is_some(), full);
        if full {
            return Ok(());
        }
        self.next += gap;
        let key = key.map(|key| Bytes::from(vec![key]));
        let event = Event {
            offset: Offset(self.next),
            key: key.clone(),
            time_ms: WALL_MS - age_ms,
            event_type: EventType(event_type),
            size_bytes,
            payload: (),
        };
        prop_assert_eq!(self.core.admit(event, self.now, Some(self.wall_now())), Seen::New);
        let delay = self.options.delay.map_or(0, |delay| delay.as_millis() as i64);
        let wait = if delay == 0 { 0 } else { (delay - age_ms).clamp(0, delay) };
        let not_before = self.now + Duration::from_millis(wait as u64);
        self.known.insert(self.next, Known { key, size_bytes, not_before, finished: false });
        self.next += 1;
        Ok(())
    }

    fn unfinished(&self) -> impl Iterator<Item = (&u64, &Known)> {
        self.known.iter().filter(|(_, known)| !known.finished)
    }

    /// Whether two events are of one key queue.
    fn ordered(&self, one: u64, other: u64) -> bool {
        match self.options.order {
            Order::Key => self.known[&one].key.is_some() && self.known[&one].key == self.known[&other].key,
            Order::Partition => true,
            Order::None => false,
        }
    }

    fn start(&mut self, lane: usize) -> Result<bool, TestCaseError> {
        let Some(job) = self.core.take(lane, self.now) else { return Ok(false) };
        let offset = job.ticket.offset.0;
        prop_assert!(!self.known[&offset].finished, "{} is attempted again", offset);
        prop_assert!(self.known[&offset].not_before <= self.now, "{} is early", offset);
        prop_assert!(self.open.iter().all(|(open, _)| open.offset.0 != offset && !self.ordered(open.offset.0, offset)));
        let earlier = self.unfinished().find(|(other, _)| **other < offset && self.ordered(**other, offset));
        prop_assert!(earlier.is_none(), "{} starts before {:?}", offset, earlier.map(|(other, _)| other));
        self.open.push((job.ticket, matches!(job.work, Work::Bypass(_))));
        Ok(true)
    }

    fn end(&mut self, (ticket, bypass): (Ticket, bool), how: How) -> Result<(), TestCaseError> {
        let failure = Failure { reason: "told", code: None, detail: String::new() };
        let end = match (how, bypass) {
            (How::Well, true) => End::Bypass(Ok(())),
            (_, true) => End::Bypass(Err("told".into())),
            (How::Well, false) => End::Attempt(Outcome::Done),
            (How::Badly, false) => End::Attempt(Outcome::Retry { not_before: None, failure }),
            (How::BadlyForNow(ms), false) => {
                let not_before = self.now + Duration::from_millis(ms);
                self.known.get_mut(&ticket.offset.0).unwrap().not_before = not_before;
                End::Attempt(Outcome::Retry { not_before: Some(not_before), failure })
            }
            (How::ForGood, false) => End::Attempt(Outcome::Failed(failure)),
            (How::Cut, false) => End::Attempt(Outcome::Cut),
        };
        let verdict = self.core.complete(ticket, end, self.now);
        let finished = matches!(verdict, Verdict::Delivered | Verdict::Bypassed { .. });
        prop_assert_eq!(finished, matches!(how, How::Well));
        prop_assert!(!matches!(verdict, Verdict::Stale));
        let known = self.known.get_mut(&ticket.offset.0).unwrap();
        known.finished = finished;
        if verdict == Verdict::GivenUp {
            known.not_before = self.now; // The bypass is no attempt: nobody asked for it to wait.
        }
        self.closed.push(ticket);
        Ok(())
    }

    fn stale(&mut self, which: prop::sample::Index, epoch: bool) -> Result<(), TestCaseError> {
        let before = (self.core.progress(), self.core.in_flight(), self.core.finished());
        let closed: Vec<_> = self.closed.iter().filter(|closed| self.open.iter().all(|(open, _)| open != *closed)).copied().collect();
        let ticket = if epoch { self.open.first().map(|(open, _)| Ticket { epoch: Epoch(6), ..*open }) } else { None };
        let Some(ticket) = ticket.or_else(|| (!closed.is_empty()).then(|| closed[which.index(closed.len())])) else { return Ok(()) };
        prop_assert_eq!(self.core.complete(ticket, End::Attempt(Outcome::Done), self.now), Verdict::Stale);
        prop_assert_eq!((self.core.progress(), self.core.in_flight(), self.core.finished()), before);
        Ok(())
    }

    fn tick(&mut self) -> Result<(), TestCaseError> {
        for ticket in self.core.tick(self.now).in_flight {
            prop_assert!(self.options.processing_timeout.is_some() && !self.paused);
            let at = self.open.iter().position(|(open, _)| *open == ticket);
            self.open.swap_remove(at.expect("only what is in flight is stopped"));
            let end = End::Attempt(Outcome::Failed(Failure::processing_timeout(None)));
            let verdict = self.core.complete(ticket, end, self.now);
            prop_assert_eq!(verdict == Verdict::GivenUp, self.options.on_failure == OnFailure::Bypass);
            self.closed.push(ticket);
        }
        // A round that expired while it waited goes to its bypass at once.
        if self.options.on_failure == OnFailure::Bypass && self.options.processing_timeout.is_some() {
            let now = self.now;
            self.known.values_mut().for_each(|known| known.not_before = known.not_before.min(now));
        }
        Ok(())
    }

    fn holds(&mut self) -> Result<(), TestCaseError> {
        let Progress { cursor, done, .. } = self.core.progress();
        prop_assert!(cursor >= self.cursor, "the cursor went back");
        self.cursor = cursor;
        let lowest = self.unfinished().next().map_or(self.core.position().0, |(lowest, _)| *lowest);
        prop_assert_eq!(cursor.0, lowest);
        for (offset, known) in self.known.range(cursor.0..) {
            prop_assert_eq!(done.iter().any(|run| run.contains(offset)), known.finished, "{}", offset);
        }
        let records = self.unfinished().count();
        prop_assert!(done.len() <= records + 1);
        prop_assert_eq!(self.core.unfinished(), records);
        prop_assert_eq!(self.core.unfinished_bytes(), self.unfinished().map(|(_, known)| known.size_bytes).sum::<usize>());
        prop_assert!(records <= MAX_RECORDS && (records == 1 || self.core.unfinished_bytes() <= MAX_BYTES));
        prop_assert_eq!(self.core.in_flight(), self.open.len());
        prop_assert!(self.core.pending_retries() <= records && self.core.keys() <= records);
        Ok(())
    }

    /// Everything succeeds from now on.
    fn heal(&mut self) -> Result<(), TestCaseError> {
        self.apply(&Step::Resume)?;
        for _ in 0..1000 {
            while let Some(open) = self.open.pop() {
                self.end(open, How::Well)?;
            }
            for lane in self.core.lanes() {
                while self.start(lane)? {}
            }
            if self.open.is_empty() {
                if self.core.unfinished() == 0 {
                    break;
                }
                let wakeup = self.core.next_wakeup();
                prop_assert!(wakeup.is_some(), "unfinished, and nothing will wake it");
                self.now = self.now.max(wakeup.unwrap());
                self.tick()?;
            }
            self.holds()?;
        }
        prop_assert_eq!(self.core.unfinished(), 0, "when everything is delivered, everything finishes");
        prop_assert_eq!((self.core.keys(), self.core.pending_retries(), self.core.unfinished_bytes()), (0, 0, 0));
        prop_assert_eq!(self.core.progress(), Progress { cursor: Offset(self.next), done: vec![], ..Progress::default() });
        prop_assert_eq!(self.core.next_wakeup(), None, "an idle partition has no timer");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn promises_hold_in_any_history(options in options(), steps in prop::collection::vec(step(), 0..150)) {
        let mut world = World::new(options);
        for step in steps {
            world.apply(&step)?;
        }
        world.heal()?;
    }
}

//! One partition of the log: where its records are, and who waits for more.
//!
//! The committing thread appends at its back, the housekeeper takes from its front, readers look.
//! The lock is held for a few pointers at a time, never over I/O, and once per batch.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use super::chunk::{Place, RunSoFar};
use super::segment::{Run, Segment, run_at};
use crate::ids::{Offset, Partition, Topic};
use crate::queue::Watermarks;
use crate::record::TimestampMs;

pub(super) struct Log {
    pub(super) place: Place,
    pub(super) topic: Topic,
    horizon: watch::Sender<Horizon>,
    state: Mutex<State>,
}

/// What readers wait on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Horizon {
    End(u64),
    /// The topic is no more.
    Deleted,
}

struct State {
    first: u64,
    end: u64,
    runs: VecDeque<Run>,
    /// The newest records, so that readers near the end share them and need not read the store.
    recent: VecDeque<Bytes>,
}

/// What a reader at some offset is to do.
pub(super) enum Found {
    /// Encoded records from that offset on.
    Recent(Vec<Bytes>),
    Stored(Run),
    AtEnd,
    Outside,
}

/// Synced records, to be published.
pub(super) struct Synced<'a> {
    pub(super) segment: &'a Arc<Segment>,
    pub(super) records: Vec<Bytes>,
    pub(super) so_far: RunSoFar,
}

impl Log {
    /// From what the store holds: runs in offset order. `first` is where retention has come to.
    pub(super) fn new(topic: Topic, place: Place, first: u64, runs: VecDeque<Run>) -> Self {
        let first = runs.front().map_or(first, |run| run.base.max(first));
        let end = runs.back().map_or(first, |run| run.end);
        let state = State { first, end, runs, recent: VecDeque::new() };
        Self { place, topic, horizon: watch::Sender::new(Horizon::End(end)), state: Mutex::new(state) }
    }

    pub(super) fn partition(&self) -> Partition {
        Partition(self.place.partition)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves nothing half done: each change below is complete or not begun.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn horizon(&self) -> watch::Receiver<Horizon> {
        self.horizon.subscribe()
    }

    pub(super) fn deleted(&self) -> bool {
        *self.horizon.borrow() == Horizon::Deleted
    }

    /// Wakes every reader for good.
    pub(super) fn delete(&self) {
        self.horizon.send_replace(Horizon::Deleted);
        let mut state = self.state();
        state.runs.clear();
        state.recent.clear();
    }

    pub(super) fn watermarks(&self) -> Watermarks {
        let state = self.state();
        Watermarks { first: Offset(state.first), end: Offset(state.end) }
    }

    /// The next offset, and its run in `segment` so far.
    pub(super) fn next(&self, segment: &Segment) -> (u64, Option<RunSoFar>) {
        let state = self.state();
        let run = state.runs.back().filter(|run| run.segment.id == segment.id);
        (state.end, run.map(|run| RunSoFar { max_timestamp: run.max_timestamp, bytes: run.bytes }))
    }

    /// Makes records readable.
    pub(super) fn publish(&self, synced: Synced<'_>) {
        let mut state = self.state();
        let base = state.end;
        state.end += synced.records.len() as u64;
        let end = state.end;
        state.recent.extend(synced.records);
        let RunSoFar { max_timestamp, bytes } = synced.so_far;
        match state.runs.back_mut() {
            Some(run) if run.segment.id == synced.segment.id => (run.end, run.bytes, run.max_timestamp) = (end, bytes, max_timestamp),
            _ => state.runs.push_back(Run { segment: Arc::clone(synced.segment), base, end, bytes, max_timestamp }),
        }
        drop(state);
        self.horizon.send_replace(Horizon::End(end));
    }

    /// Lets the oldest of the recent records go.
    pub(super) fn forget_recent(&self, records: usize) {
        let mut state = self.state();
        let records = records.min(state.recent.len());
        state.recent.drain(..records);
    }

    /// What a reader at `offset` gets, and the end. Recent records to about `max_bytes`, at least one.
    pub(super) fn find(&self, offset: u64, max_bytes: usize) -> (Found, u64) {
        let state = self.state();
        (state.find(offset, max_bytes), state.end)
    }

    /// The run where the first record at or after `time` lies.
    pub(super) fn run_for_time(&self, time: TimestampMs) -> Option<Run> {
        self.state().runs.iter().find(|run| run.max_timestamp >= time).cloned()
    }

    pub(super) fn runs(&self) -> Vec<Run> {
        self.state().runs.iter().cloned().collect()
    }

    /// Moves the first offset up to the end of some run.
    pub(super) fn drop_below(&self, first: u64) {
        let mut state = self.state();
        state.first = state.first.max(first);
        while state.runs.front().is_some_and(|run| run.end <= first) {
            state.runs.pop_front();
        }
        let stale = state.recent.len().saturating_sub(usize::try_from(state.end - state.first).unwrap_or(usize::MAX));
        state.recent.drain(..stale);
    }

    /// The records of some segments lie in another one now.
    pub(super) fn relocate(&self, from: &[u64], to: &Arc<Segment>) {
        for run in &mut self.state().runs {
            if from.contains(&run.segment.id) {
                run.segment = Arc::clone(to);
            }
        }
    }
}

impl State {
    fn find(&self, offset: u64, max_bytes: usize) -> Found {
        if offset < self.first || offset > self.end {
            return Found::Outside;
        }
        if offset == self.end {
            return Found::AtEnd;
        }
        let recent_base = self.end - self.recent.len() as u64;
        match offset.checked_sub(recent_base) {
            Some(index) => Found::Recent(self.recent(index, max_bytes)),
            None => run_at(&self.runs, offset).map_or(Found::Outside, |run| Found::Stored(run.clone())),
        }
    }

    fn recent(&self, index: u64, max_bytes: usize) -> Vec<Bytes> {
        let index = usize::try_from(index).expect("it is less than the number of recent records");
        let mut left = max_bytes;
        let fitting = self.recent.range(index..).take_while(|record| {
            let fits = record.len() <= left;
            left = left.saturating_sub(record.len());
            fits
        });
        let count = fitting.count().max(1);
        self.recent.range(index..index + count).cloned().collect()
    }
}

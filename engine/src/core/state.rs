//! The State Manager: which offsets of a partition are in process, which are done, and how far it
//! has come.
//!
//! Only what is unfinished is kept, in offset order. What is done above the cursor is exactly what
//! lies between two unfinished offsets, and between the last of them and the reader's position. So
//! memory follows the unfinished records, however many are done behind a stuck one, and the runs
//! of done offsets are at most one more than those. A property test compares the answers with
//! those of two heaps.

use std::collections::VecDeque;
use std::ops::Range;

use super::list::{List, Nodes, Slot};
use crate::ids::Offset;
use crate::ports::Progress;

/// The list of unfinished offsets, ascending.
const BY_OFFSET: usize = 0;

pub(crate) struct Tracked<T> {
    pub(crate) offset: u64,
    pub(crate) value: T,
}

pub(crate) struct StateManager<T> {
    pub(crate) nodes: Nodes<Tracked<T>>,
    unfinished: List<BY_OFFSET>,
    /// The next offset that the reader is expected to yield.
    position: u64,
    ahead: DoneAhead,
    /// Grows whenever the progress may have changed.
    revision: u64,
}

/// What the State Manager makes of an offset that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    New,
    /// Done before this epoch.
    Done,
    /// Below the position: the reader went back.
    Repeated,
}

impl<T> StateManager<T> {
    pub(crate) fn new(from: Progress) -> Self {
        let position = from.cursor.0;
        let ahead = DoneAhead::new(from.done, position);
        Self { nodes: Nodes::new(), unfinished: List::default(), position, ahead, revision: 0 }
    }

    pub(crate) fn seen(&self, offset: Offset) -> Seen {
        if offset.0 < self.position {
            Seen::Repeated
        } else if self.ahead.contains(offset.0) {
            Seen::Done
        } else {
            Seen::New
        }
    }

    /// Takes an offset into process. It must be [`Seen::New`].
    pub(crate) fn admit(&mut self, offset: Offset, value: T) -> Slot {
        debug_assert_eq!(self.seen(offset), Seen::New);
        let slot = self.nodes.insert(Tracked { offset: offset.0, value });
        self.unfinished.push_back(&mut self.nodes, slot);
        self.set_position(offset.0 + 1);
        slot
    }

    /// Everything below `to` was read; what was not admitted is done. Never goes back.
    pub(crate) fn advance(&mut self, to: Offset) {
        if to.0 > self.position {
            self.set_position(to.0);
            self.revision += 1;
        }
    }

    pub(crate) fn finish(&mut self, slot: Slot) -> T {
        self.unfinished.remove(&mut self.nodes, slot);
        self.revision += 1;
        self.nodes.remove(slot).value
    }

    pub(crate) fn oldest(&self) -> Option<Slot> {
        self.unfinished.head()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.unfinished.iter(&self.nodes)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn position(&self) -> Offset {
        Offset(self.position)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn cursor(&self) -> Offset {
        Offset(self.oldest().map_or_else(|| self.ahead.frontier(self.position), |slot| self.nodes[slot].offset))
    }

    /// Offsets done above the cursor.
    pub(crate) fn done_above_cursor(&self) -> u64 {
        let cursor = self.cursor().0;
        let read = self.position.saturating_sub(cursor).saturating_sub(self.len() as u64);
        // With nothing unfinished the cursor stands at the end of the run at the position.
        read + self.ahead.count - cursor.saturating_sub(self.position)
    }

    /// O(unfinished).
    pub(crate) fn progress(&self) -> Progress {
        let cursor = self.cursor();
        let mut done = Vec::new();
        let mut from = cursor.0;
        for slot in self.iter() {
            let offset = self.nodes[slot].offset;
            push_run(&mut done, from..offset);
            from = offset + 1;
        }
        push_run(&mut done, from..self.position);
        self.ahead.runs.iter().for_each(|run| push_run(&mut done, run.start.max(from)..run.end));
        Progress { cursor, done, tries: Vec::new() }
    }

    fn set_position(&mut self, to: u64) {
        self.position = to;
        self.ahead.trim(to);
    }
}

/// What was done before this epoch and lies at or above the position.
struct DoneAhead {
    runs: VecDeque<Range<u64>>,
    /// Offsets in `runs`.
    count: u64,
}

impl DoneAhead {
    fn new(runs: Vec<Range<u64>>, position: u64) -> Self {
        let mut joined = Vec::with_capacity(runs.len());
        runs.into_iter().for_each(|run| push_run(&mut joined, run));
        let count = joined.iter().map(|run| run.end - run.start).sum();
        let mut ahead = Self { runs: joined.into(), count };
        ahead.trim(position);
        ahead
    }

    fn trim(&mut self, position: u64) {
        while let Some(first) = self.runs.front_mut().filter(|first| first.start < position) {
            self.count -= first.end.min(position) - first.start;
            first.start = position;
            if first.is_empty() {
                self.runs.pop_front();
            }
        }
    }

    fn contains(&self, offset: u64) -> bool {
        let after = self.runs.partition_point(|run| run.start <= offset);
        after > 0 && offset < self.runs[after - 1].end
    }

    /// The end of the run that begins at the position, else the position.
    fn frontier(&self, position: u64) -> u64 {
        self.runs.front().filter(|run| run.start == position).map_or(position, |run| run.end)
    }
}

/// Appends a run, joining it to the last one where they touch. Empty runs are left out.
fn push_run(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    match runs.last_mut() {
        _ if run.is_empty() => {}
        Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
        _ => runs.push(run),
    }
}

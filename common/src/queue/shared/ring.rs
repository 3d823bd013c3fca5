//! What was read last of a partition, until each of its readers has passed it, or there is too much.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::Offset;
use crate::queue::Batch;
use crate::record::Record;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReaderId(u64);

#[derive(Debug)]
pub(super) struct Ring {
    records: VecDeque<Record>,
    bytes: usize,
    /// From here to `head` nothing is missing.
    start: Offset,
    /// After everything that was read.
    head: Offset,
    /// Of the log, as last known.
    end: Offset,
    readers: BTreeMap<ReaderId, Offset>,
    next_id: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Batch(Batch),
    /// Nothing more has been read yet.
    AtHead,
    /// What comes next is not kept any more.
    Behind,
}

impl Ring {
    pub(super) fn new(at: Offset) -> Self {
        Self { records: VecDeque::new(), bytes: 0, start: at, head: at, end: at, readers: BTreeMap::new(), next_id: 0 }
    }

    pub(super) fn head(&self) -> Offset {
        self.head
    }

    /// One more reader, if what it reads next is kept, or is what will be read next.
    pub(super) fn join(&mut self, from: Offset) -> Option<ReaderId> {
        if from < self.start || from > self.head {
            return None;
        }
        let id = ReaderId(self.next_id);
        self.next_id += 1;
        self.readers.insert(id, from);
        Some(id)
    }

    pub(super) fn leave(&mut self, id: ReaderId) {
        self.readers.remove(&id);
        self.forget();
    }

    pub(super) fn position(&self, id: ReaderId) -> Offset {
        self.readers.get(&id).copied().expect("a reader keeps its id until it leaves")
    }

    /// What was read on from the head. At most `max_bytes` are kept, but for one record, however large.
    pub(super) fn add(&mut self, batch: Batch, max_bytes: usize) {
        self.bytes += batch.records.iter().map(|record| record.payload.size_bytes()).sum::<usize>();
        self.records.extend(batch.records);
        (self.head, self.end) = (batch.next_offset, batch.end);
        self.forget();
        while self.bytes > max_bytes && self.records.len() > 1 {
            self.drop_first();
        }
    }

    pub(super) fn take(&mut self, id: ReaderId, max_bytes: usize) -> Taken {
        let position = self.position(id);
        if position < self.start {
            return Taken::Behind;
        }
        if position == self.head {
            return Taken::AtHead;
        }
        let first = self.records.partition_point(|record| record.offset < position);
        let mut bytes = 0;
        let fits = |record: &&Record| {
            bytes += record.payload.size_bytes();
            bytes <= max_bytes
        };
        let fitting = self.records.range(first..).take_while(fits).count();
        let last = self.records.len().min(first + fitting.max(1));
        let next_offset = self.records.get(last).map_or(self.head, |record| record.offset);
        let records = if self.readers.len() == 1 {
            // What lies before is not needed either.
            self.bytes -= self.records.range(..last).map(|record| record.payload.size_bytes()).sum::<usize>();
            self.records.drain(..last).skip(first).collect()
        } else {
            self.records.range(first..last).cloned().collect()
        };
        self.readers.insert(id, next_offset);
        self.forget();
        Taken::Batch(Batch { records, next_offset, end: self.end.max(next_offset) })
    }

    /// What every reader has passed.
    fn forget(&mut self) {
        let needed = self.readers.values().min().copied().unwrap_or(self.head);
        while self.records.front().is_some_and(|record| record.offset < needed) {
            self.drop_first();
        }
        // Before the first record that is kept may be a gap, which is not missing.
        self.start = self.start.max(needed.min(self.head));
    }

    fn drop_first(&mut self) {
        if let Some(record) = self.records.pop_front() {
            self.bytes -= record.payload.size_bytes();
            self.start = record.offset.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::record::Payload;

    fn record(offset: u64) -> Record {
        let payload = Payload { value: Some(Bytes::from_static(&[0; 10])), ..Payload::default() };
        Record { offset: Offset(offset), timestamp: 0, payload }
    }

    fn batch(offsets: impl IntoIterator<Item = u64>, next: u64) -> Batch {
        Batch { records: offsets.into_iter().map(record).collect(), next_offset: Offset(next), end: Offset(next) }
    }

    fn offsets(taken: Taken) -> (Vec<u64>, u64) {
        let Taken::Batch(batch) = taken else { panic!("{taken:?}") };
        (batch.records.iter().map(|record| record.offset.0).collect(), batch.next_offset.0)
    }

    #[test]
    fn readers_take_the_same_in_pieces_of_their_own() {
        let mut ring = Ring::new(Offset(5));
        let (a, b) = (ring.join(Offset(5)).unwrap(), ring.join(Offset(5)).unwrap());
        assert_eq!(ring.take(a, 100), Taken::AtHead);
        ring.add(batch([5, 6, 9], 12), 1_000);
        assert_eq!(offsets(ring.take(a, 100)), (vec![5, 6, 9], 12));
        assert_eq!(offsets(ring.take(b, 20)), (vec![5, 6], 9));
        assert_eq!(offsets(ring.take(b, 1)), (vec![9], 12));
        assert_eq!((ring.take(a, 100), ring.take(b, 100)), (Taken::AtHead, Taken::AtHead));
        assert_eq!((ring.bytes, ring.records.len()), (0, 0));
    }

    #[test]
    fn a_reader_that_is_too_slow_is_behind_and_holds_nobody_back() {
        let mut ring = Ring::new(Offset(0));
        let (quick, slow) = (ring.join(Offset(0)).unwrap(), ring.join(Offset(0)).unwrap());
        for offset in 0..10 {
            ring.add(batch([offset], offset + 1), 30);
            assert_eq!(offsets(ring.take(quick, 100)), (vec![offset], offset + 1));
        }
        assert_eq!((ring.take(slow, 100), ring.bytes), (Taken::Behind, 30));
        ring.leave(slow);
        assert_eq!(ring.bytes, 0);
    }

    #[test]
    fn who_comes_later_joins_where_nothing_is_missing() {
        let mut ring = Ring::new(Offset(0));
        let stays = ring.join(Offset(0)).unwrap();
        ring.add(batch(0..5, 8), 50);
        assert_eq!(offsets(ring.take(stays, 20)), (vec![0, 1], 2));
        assert_eq!((ring.join(Offset(1)), ring.join(Offset(9))), (None, None));
        let late = ring.join(Offset(3)).unwrap();
        assert_eq!(offsets(ring.take(late, 100)), (vec![3, 4], 8));
        assert!(ring.join(Offset(8)).is_some());
    }

    #[test]
    fn a_gap_moves_everybody_on_without_a_record() {
        let mut ring = Ring::new(Offset(0));
        let a = ring.join(Offset(0)).unwrap();
        let _b = ring.join(Offset(0)).unwrap();
        ring.add(batch([], 7), 30);
        assert_eq!(offsets(ring.take(a, 100)), (vec![], 7));
    }

    proptest! {
        /// Whatever the order of steps: every reader gets each record once and in order, or is told that it is behind.
        #[test]
        fn nothing_is_missed_or_taken_twice(steps in proptest::collection::vec((0_u8..4, 0_usize..4, 1_usize..60), 1..200)) {
            let mut ring = Ring::new(Offset(0));
            let mut readers: Vec<Option<(ReaderId, u64)>> = vec![None; 4];
            let mut head = 0;
            for (step, reader, size) in steps {
                match step {
                    // Every third offset is a gap.
                    0 => {
                        let next = head + size as u64 % 7;
                        ring.add(batch((head..next).filter(|offset| offset % 3 != 0), next), 60);
                        head = next;
                    }
                    1 => readers[reader] = readers[reader].or_else(|| {
                        let from = head.saturating_sub(size as u64 % 5);
                        ring.join(Offset(from)).map(|id| (id, from))
                    }),
                    2 => if let Some((id, _)) = readers[reader].take() {
                        ring.leave(id);
                    },
                    _ => if let Some((id, position)) = readers[reader] {
                        match ring.take(id, size) {
                            Taken::Batch(taken) => {
                                let expected: Vec<u64> = (position..taken.next_offset.0).filter(|offset| offset % 3 != 0).collect();
                                let found: Vec<u64> = taken.records.iter().map(|record| record.offset.0).collect();
                                prop_assert_eq!(expected, found);
                                readers[reader] = Some((id, taken.next_offset.0));
                            }
                            Taken::AtHead => prop_assert_eq!(position, head),
                            Taken::Behind => {
                                ring.leave(id);
                                readers[reader] = None;
                            }
                        }
                    },
                }
                prop_assert!(ring.bytes <= 60 || ring.records.len() == 1);
                prop_assert_eq!(ring.bytes, ring.records.iter().map(|record| record.payload.size_bytes()).sum::<usize>());
            }
        }
    }
}

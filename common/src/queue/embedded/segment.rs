//! One segment of the log: a keyspace of the store that is filled once, then only read, and at
//! last dropped as a whole.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::chunk::{Chunk, Place};
use super::codec::{self, Undecodable};
use crate::ids::Offset;
use crate::queue::QueueError;
use crate::record::{Record, TimestampMs};
use crate::store::{Keyspace, Profile, Store, StoreError};

const PREFIX: &str = "log-";

pub(super) struct Segment {
    pub(super) id: u64,
    pub(super) keyspace: Keyspace,
}

/// The records of one partition in one segment, without a hole: the unit of retention.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) segment: Arc<Segment>,
    pub(super) base: u64,
    pub(super) end: u64,
    pub(super) bytes: u64,
    pub(super) max_timestamp: TimestampMs,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SegmentError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    #[error("offset {0} should be in segment {1}, and is not")]
    Missing(u64, u64),
}

impl From<SegmentError> for QueueError {
    fn from(error: SegmentError) -> Self {
        Self::Storage(error.to_string())
    }
}

impl Segment {
    pub(super) fn open(store: &Store, id: u64) -> Result<Arc<Self>, StoreError> {
        let keyspace = store.keyspace(&format!("{PREFIX}{id:016x}"), Profile::Log)?;
        Ok(Arc::new(Self { id, keyspace }))
    }

    /// Every segment of the store, by id.
    pub(super) fn all(store: &Store) -> Result<Vec<Arc<Self>>, StoreError> {
        let names = store.keyspace_names();
        let ids = names.iter().filter_map(|name| u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok());
        let mut segments = ids.map(|id| Self::open(store, id)).collect::<Result<Vec<_>, _>>()?;
        segments.sort_by_key(|segment| segment.id);
        Ok(segments)
    }

    /// What lies in it, by looking at the first and last chunk of each place only.
    pub(super) fn runs(self: &Arc<Self>) -> Result<Vec<(Place, Run)>, SegmentError> {
        let mut runs = Vec::new();
        let mut after = Bound::Unbounded;
        while let Some(entry) = self.keyspace.range((after, Bound::Unbounded)).next() {
            let (place, first) = decode(entry?)?;
            let last = self.keyspace.range(place.keys(0, u64::MAX)).next_back();
            let (_, last) = decode(last.ok_or(SegmentError::Missing(first.last(), self.id))??)?;
            let run = Run {
                segment: Arc::clone(self),
                base: first.base(),
                end: last.last() + 1,
                bytes: last.so_far.bytes,
                max_timestamp: last.so_far.max_timestamp,
            };
            runs.push((place, run));
            after = Bound::Excluded(place.key(u64::MAX));
        }
        Ok(runs)
    }
}

impl Run {
    /// Records from `from` on, to the end of the run or to about `max_bytes`, at least one.
    pub(super) fn read(&self, place: Place, from: u64, max_bytes: usize) -> Result<Vec<Record>, SegmentError> {
        let mut records = Vec::new();
        let mut bytes = 0;
        for chunk in self.chunks(place, from) {
            for record in chunk?.records() {
                let (offset, record) = record?;
                if offset < from {
                    continue;
                }
                if bytes + record.len() > max_bytes && !records.is_empty() {
                    return Ok(records);
                }
                bytes += record.len();
                // A copy, so that a record kept for long does not keep its neighbours in memory.
                let (timestamp, payload) = codec::decode(&Bytes::copy_from_slice(&record))?;
                records.push(Record { offset: Offset(offset), timestamp, payload });
            }
        }
        if records.is_empty() { Err(SegmentError::Missing(from, self.segment.id)) } else { Ok(records) }
    }

    /// The first offset whose timestamp is at or after `time`; there must be one.
    ///
    /// The greatest timestamp so far never falls from chunk to chunk, so halving finds the chunk
    /// where it first reaches `time`, however disordered the timestamps are.
    pub(super) fn first_at(&self, place: Place, time: TimestampMs) -> Result<u64, SegmentError> {
        let (mut low, mut high) = (self.base, self.end);
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let chunk = self.chunks(place, middle).next().ok_or(SegmentError::Missing(middle, self.segment.id))??;
            if chunk.so_far.max_timestamp < time {
                low = chunk.last() + 1;
            } else {
                high = chunk.base();
                found = Some(chunk);
            }
        }
        for record in found.ok_or(SegmentError::Missing(self.base, self.segment.id))?.records() {
            let (offset, record) = record?;
            if codec::timestamp(&record)? >= time {
                return Ok(offset);
            }
        }
        Err(SegmentError::Missing(low, self.segment.id))
    }

    /// The run's chunks as the store has them, from the one that holds `from`.
    pub(super) fn entries(&self, place: Place, from: u64) -> impl Iterator<Item = Result<(Bytes, Bytes), StoreError>> + use<> {
        self.segment.keyspace.range(place.keys(from, self.end - 1))
    }

    fn chunks(&self, place: Place, from: u64) -> impl Iterator<Item = Result<Chunk, SegmentError>> + use<> {
        self.entries(place, from).map(|entry| Ok(decode(entry?)?.1))
    }
}

fn decode((key, value): (Bytes, Bytes)) -> Result<(Place, Chunk), Undecodable> {
    let (place, last) = Place::of_key(&key)?;
    Ok((place, Chunk::decode(last, value)?))
}

/// The run that holds `offset`, of runs in order.
pub(super) fn run_at(runs: &VecDeque<Run>, offset: u64) -> Option<&Run> {
    runs.get(runs.partition_point(|run| run.end <= offset))
}

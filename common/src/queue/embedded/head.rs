//! The segment that is being filled.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::housekeeper::{Job, Sealed};
use super::options::{MEMTABLE_BYTES, SEGMENT_TABLES};
use super::segment::Segment;
use super::shared::Shared;
use crate::record::TimestampMs;
use crate::store::StoreError;

pub(super) struct Head {
    segment: Arc<Segment>,
    bytes: u64,
    /// Since its memtable was last closed.
    unflushed_bytes: u64,
    /// When its first record came; after a restart, when it was opened.
    began: Option<TimestampMs>,
    spare_asked: bool,
}

impl Head {
    pub(super) fn new(Sealed { segment, bytes }: Sealed, now: TimestampMs) -> Self {
        Self { segment, bytes, unflushed_bytes: 0, began: (bytes > 0).then_some(now), spare_asked: false }
    }

    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Before records come: begins another segment when this one is full, or in too many pieces.
    pub(super) fn make_room(&mut self, shared: &Shared, jobs: &Sender<Job>) -> Result<(), StoreError> {
        if self.bytes >= shared.options.segment_bytes || self.segment.keyspace.tables() >= SEGMENT_TABLES {
            self.replace(shared, jobs)?;
        }
        self.began.get_or_insert_with(|| shared.now());
        Ok(())
    }

    pub(super) fn grew(&mut self, bytes: u64, shared: &Shared, jobs: &Sender<Job>) {
        self.bytes += bytes;
        self.unflushed_bytes += bytes;
        if self.unflushed_bytes >= MEMTABLE_BYTES {
            self.unflushed_bytes = 0;
            // A failure is remembered by the store, and met by the next commit.
            drop(self.segment.keyspace.rotate());
        }
        if self.bytes >= shared.options.segment_bytes / 2 && !self.spare_asked {
            self.spare_asked = true;
            drop(jobs.send(Job::MakeSpare));
        }
    }

    pub(super) fn roll_if_before(&mut self, time: TimestampMs, shared: &Shared, jobs: &Sender<Job>) {
        if self.began.is_some_and(|began| began <= time) {
            self.roll(shared, jobs);
        }
    }

    /// Begins another segment, unless nothing is in this one.
    pub(super) fn roll(&mut self, shared: &Shared, jobs: &Sender<Job>) {
        if self.bytes > 0
            && let Err(error) = self.replace(shared, jobs)
        {
            tracing::error!(%error, "no new segment could be begun");
        }
    }

    fn replace(&mut self, shared: &Shared, jobs: &Sender<Job>) -> Result<(), StoreError> {
        let next = shared.take_spare().map_or_else(|| shared.new_segment(), Ok)?;
        self.segment.keyspace.rotate()?;
        let full = Sealed { segment: std::mem::replace(&mut self.segment, next), bytes: self.bytes };
        (self.bytes, self.unflushed_bytes, self.began, self.spare_asked) = (0, 0, None, false);
        drop(jobs.send(Job::Seal(full)));
        Ok(())
    }
}

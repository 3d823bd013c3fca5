//! What one commit takes, by partition.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;

use super::catalog::TopicLogs;
use super::chunk::{self, Place, RunSoFar};
use super::intake::Pending;
use super::log::{Log, Synced};
use super::options::{CHUNK_BYTES, COMMIT_BYTES, COMMIT_RECORDS};
use super::segment::Segment;
use crate::ids::{Offset, Partition};
use crate::queue::{ProduceError, Produced};
use crate::record::TimestampMs;
use crate::store::Batch;

/// What a round keeps for the next one: lists, and room in each.
const MAX_SPARE_LISTS: usize = 64;
const MAX_SPARE_RECORDS: usize = 256;

/// Used again for each commit, so that its tables need not grow anew.
#[derive(Default)]
pub(super) struct Round {
    groups: Vec<Group>,
    /// Emptied lists of former groups.
    spare: Vec<Vec<Pending>>,
    by_place: HashMap<Place, usize, foldhash::fast::RandomState>,
    records: usize,
    bytes: usize,
}

/// One partition's records of a commit, in offset order.
struct Group {
    topic: Arc<TopicLogs>,
    partition: Partition,
    pending: Vec<Pending>,
    base: u64,
    so_far: Option<RunSoFar>,
}

impl Group {
    fn log(&self) -> &Log {
        self.topic.log(self.partition).expect("a partition is checked when it is chosen")
    }
}

impl Round {
    pub(super) fn add(&mut self, topic: Arc<TopicLogs>, partition: Partition, pending: Pending) {
        self.records += 1;
        self.bytes += pending.record.len();
        let place = Place { topic: topic.number, partition: partition.0 };
        let at = *self.by_place.entry(place).or_insert(self.groups.len());
        if at == self.groups.len() {
            let pending = self.spare.pop().unwrap_or_default();
            self.groups.push(Group { topic, partition, pending, base: 0, so_far: None });
        }
        self.groups[at].pending.push(pending);
    }

    pub(super) fn is_full(&self) -> bool {
        self.records >= COMMIT_RECORDS || self.bytes >= COMMIT_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn records(&self) -> usize {
        self.records
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts every record into the batch, in chunks. Returns what that adds to the segment, in bytes.
    pub(super) fn write(&mut self, batch: &mut Batch, segment: &Segment) -> u64 {
        let mut added = 0;
        for group in &mut self.groups {
            let (base, so_far) = group.log().next(segment);
            group.base = base;
            let before = so_far.map_or(0, |run| run.bytes);
            let so_far = write_group(batch, segment, group, so_far);
            added += so_far.bytes - before;
            group.so_far = Some(so_far);
        }
        added
    }

    /// What was written is synced: it becomes readable, and is answered. `each` hears of every
    /// partition's share, in records and bytes.
    pub(super) fn publish(&mut self, segment: &Arc<Segment>, mut each: impl FnMut(&Arc<Log>, usize, usize)) {
        for mut group in self.groups.drain(..) {
            let so_far = group.so_far.expect("a round is written before it is published");
            let log = group.topic.log(group.partition).expect("a partition is checked when it is chosen");
            let records: Vec<Bytes> = group.pending.iter_mut().map(|pending| std::mem::take(&mut pending.record)).collect();
            let (count, bytes) = (records.len(), records.iter().map(Bytes::len).sum());
            log.publish(Synced { segment, records, so_far });
            each(log, count, bytes);
            for (offset, pending) in (group.base..).zip(group.pending.drain(..)) {
                let produced = Produced { partition: group.partition, offset: Offset(offset), timestamp: pending.timestamp };
                pending.answer(Ok(produced));
            }
            self.spare.push(group.pending);
        }
        self.begin_again();
    }

    fn begin_again(&mut self) {
        self.by_place.clear();
        (self.records, self.bytes) = (0, 0);
        self.spare.retain(|list| list.capacity() <= MAX_SPARE_RECORDS);
        self.spare.truncate(MAX_SPARE_LISTS);
    }

    pub(super) fn refuse(&mut self, error: &ProduceError) {
        let mut unanswered = 0;
        for pending in self.groups.drain(..).flat_map(|group| group.pending) {
            unanswered += u32::from(pending.answer.is_none());
            pending.answer(Err(error.clone()));
        }
        if unanswered > 0 {
            tracing::warn!(messages = unanswered, %error, "messages that were taken with ack=none are lost");
        }
        self.begin_again();
    }
}

fn write_group(batch: &mut Batch, segment: &Segment, group: &Group, so_far: Option<RunSoFar>) -> RunSoFar {
    let mut so_far = so_far.unwrap_or(RunSoFar { max_timestamp: TimestampMs::MIN, bytes: 0 });
    let place = group.log().place;
    let mut rest = group.pending.as_slice();
    let mut base = group.base;
    while !rest.is_empty() {
        let (records, after) = rest.split_at(chunk_len(rest));
        let bytes: usize = records.iter().map(|pending| pending.record.len()).sum();
        so_far.bytes += bytes as u64;
        so_far.max_timestamp = records.iter().fold(so_far.max_timestamp, |max, pending| max.max(pending.timestamp));
        base += records.len() as u64;
        batch.put(&segment.keyspace, &place.key(base - 1), chunk::encode(records.iter().map(|pending| &pending.record), so_far));
        rest = after;
    }
    so_far
}

/// How many of these make one chunk: at least one.
fn chunk_len(pending: &[Pending]) -> usize {
    let mut bytes = 0;
    let fitting = pending.iter().take_while(|pending| {
        bytes += pending.record.len();
        bytes <= CHUNK_BYTES
    });
    fitting.count().max(1)
}

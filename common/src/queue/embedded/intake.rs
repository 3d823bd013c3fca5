//! The bounded way from producers to the committing thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::catalog::TopicLogs;
use super::partitioner::Wish;
use crate::ids::{Partition, Topic};
use crate::queue::{CreateTopicError, NotWritten, ProduceError, Produced, QueueError, TopicInfo};
use crate::record::TimestampMs;

/// What the committing thread does, in the order it was asked.
pub(super) enum Work {
    Append(Pending),
    Create {
        topic: Topic,
        partitions: u32,
        answer: oneshot::Sender<Result<TopicInfo, CreateTopicError>>,
    },
    Delete {
        topic: Topic,
        answer: oneshot::Sender<Result<bool, QueueError>>,
    },
    /// Begin a new segment if the present one has records from before this time.
    RollIfBefore(TimestampMs, Option<oneshot::Sender<()>>),
    Close,
}

/// A message on its way to the disk.
pub(super) struct Pending {
    pub(super) target: Target,
    pub(super) record: Bytes,
    pub(super) timestamp: TimestampMs,
    /// `None`: nobody waits.
    pub(super) answer: Option<oneshot::Sender<Result<Produced, ProduceError>>>,
    pub(super) permit: Permit,
}

impl Pending {
    pub(super) fn answer(self, answer: Result<Produced, ProduceError>) {
        // Room is made before the answer is given, so that who sends one message after another is never refused.
        drop(self.permit);
        if let Some(waiting) = self.answer {
            // Who waited may have gone.
            drop(waiting.send(answer));
        }
    }
}

pub(super) enum Target {
    Known(Arc<TopicLogs>, Partition),
    /// To be created.
    New(Topic, Wish),
}

pub(super) struct Intake {
    sender: mpsc::Sender<Work>,
    bounds: Arc<Bounds>,
    closing: AtomicBool,
}

/// What waits or is being written. Bytes are those of records, plus [`PER_RECORD_BYTES`] each.
pub(super) struct Bounds {
    records: AtomicUsize,
    bytes: AtomicUsize,
    max_records: usize,
    max_bytes: usize,
}

/// What a waiting record costs beside its own bytes: its place in the queue, its answer.
const PER_RECORD_BYTES: usize = 256;

/// One record's share of the bounds, free again when dropped.
pub(super) struct Permit {
    bounds: Arc<Bounds>,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.bounds.records.fetch_sub(1, Ordering::Relaxed);
        self.bounds.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Intake {
    pub(super) fn new(max_records: usize, max_bytes: usize) -> (Self, mpsc::Receiver<Work>) {
        let (sender, receiver) = mpsc::channel();
        let bounds = Bounds { records: AtomicUsize::new(0), bytes: AtomicUsize::new(0), max_records, max_bytes };
        (Self { sender, bounds: Arc::new(bounds), closing: AtomicBool::new(false) }, receiver)
    }

    /// Room for a record of so many bytes, or a refusal at once.
    pub(super) fn admit(&self, record_bytes: usize) -> Result<Permit, ProduceError> {
        if self.closing.load(Ordering::Acquire) {
            return Err(shutting_down());
        }
        let bytes = record_bytes + PER_RECORD_BYTES;
        let records_before = self.bounds.records.fetch_add(1, Ordering::Relaxed);
        let bytes_before = self.bounds.bytes.fetch_add(bytes, Ordering::Relaxed);
        let permit = Permit { bounds: Arc::clone(&self.bounds), bytes };
        if records_before >= self.bounds.max_records || bytes_before + bytes > self.bounds.max_bytes {
            let reason = format!("{records_before} records ({bytes_before} bytes) wait for the disk already");
            return Err(ProduceError::NotWritten(NotWritten::LocalQueueFull, reason));
        }
        Ok(permit)
    }

    /// Gives the work back when nobody will do it.
    pub(super) fn send(&self, work: Work) -> Result<(), Work> {
        self.sender.send(work).map_err(|mpsc::SendError(work)| work)
    }

    pub(super) fn sender(&self) -> mpsc::Sender<Work> {
        self.sender.clone()
    }

    /// Takes nothing more; what was taken is written.
    pub(super) fn close(&self) {
        if !self.closing.swap(true, Ordering::AcqRel) {
            // Refused only when the thread is gone already.
            drop(self.sender.send(Work::Close));
        }
    }
}

pub(super) fn shutting_down() -> ProduceError {
    ProduceError::NotWritten(NotWritten::ShuttingDown, "the queue is closing".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn refused(intake: &Intake, bytes: usize) -> NotWritten {
        match intake.admit(bytes).err().unwrap() {
            ProduceError::NotWritten(why, _) => why,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn the_local_queue_is_bounded_in_records_and_in_bytes() {
        let (intake, _work) = Intake::new(2, 10_000);
        let (first, _second) = (intake.admit(1).unwrap(), intake.admit(1).unwrap());
        assert_eq!(refused(&intake, 1), NotWritten::LocalQueueFull);
        drop(first);
        assert_eq!(refused(&intake, 10_000), NotWritten::LocalQueueFull);
        assert!(intake.admit(1).is_ok());
    }

    #[test]
    fn a_closed_queue_takes_nothing() {
        let (intake, work) = Intake::new(2, 10_000);
        intake.close();
        intake.close();
        assert_eq!(refused(&intake, 1), NotWritten::ShuttingDown);
        assert_eq!(work.try_iter().count(), 1);
    }
}

//! The thread for what is slow and may wait: sealing full segments, making spare ones, retention,
//! and giving space back. It sleeps for a minute between two looks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Instant;

use hashbrown::HashSet;
use tokio::sync::oneshot;

use super::cleaner;
use super::intake::Work;
use super::log::Log;
use super::meta::{StoredRun, StoredSegment};
use super::metrics::{Cause, DroppedLabels};
use super::retention::{self, Drop, Kept, KeptRun, Policy};
use super::segment::{Run, Segment};
use super::shared::Shared;
use crate::ids::Offset;
use crate::record::TimestampMs;
use crate::store::{Durability, StoreError};

pub(super) enum Job {
    /// It takes no more records.
    Seal(Sealed),
    MakeSpare,
    /// Give space back.
    Clean,
    /// Apply retention, and give space back.
    Sweep(Option<oneshot::Sender<()>>),
    Close,
}

/// A segment that is only read, with the bytes of all records in it, dead or alive.
pub(super) struct Sealed {
    pub(super) segment: Arc<Segment>,
    pub(super) bytes: u64,
}

pub(super) struct Housekeeper {
    pub(super) shared: Arc<Shared>,
    pub(super) jobs: Receiver<Job>,
    pub(super) work: Sender<Work>,
    pub(super) sealed: Vec<Sealed>,
    /// Where undelivered records were last said to be in danger, so that it is said once.
    pub(super) warned: Option<(Arc<Log>, u64)>,
}

impl Housekeeper {
    pub(super) fn run(mut self) {
        let interval = self.shared.options.housekeeping_interval;
        let mut next_look = Instant::now() + interval;
        loop {
            // A deadline, so that a log which fills segment after segment is looked at all the same.
            let done = match self.jobs.recv_timeout(next_look.saturating_duration_since(Instant::now())) {
                Ok(Job::Close) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Job::Seal(full)) => self.seal(full).and_then(|()| self.keep_size()),
                Ok(Job::MakeSpare) => self.shared.new_segment().map(|segment| self.shared.put_spare(segment)),
                Ok(Job::Clean) => self.clean(&self.shared.catalog.logs()),
                Ok(Job::Sweep(answer)) => {
                    let swept = self.sweep();
                    let _ = answer.map(|answer| answer.send(()));
                    swept
                }
                Err(RecvTimeoutError::Timeout) => {
                    next_look = Instant::now() + interval;
                    // What is sealed for its age now is looked at next time.
                    drop(self.work.send(Work::RollIfBefore(roll_before(&self.shared), None)));
                    self.sweep()
                }
            };
            if let Err(error) = done {
                tracing::error!(%error, "housekeeping of the embedded log failed; it is tried again later");
            }
        }
    }

    /// Writes down what is in a segment, so that the next start need not look.
    fn seal(&mut self, full: Sealed) -> Result<(), StoreError> {
        let mut runs = Vec::new();
        for log in self.shared.catalog.logs() {
            let of_segment = log.runs().into_iter().filter(|run| run.segment.id == full.segment.id);
            runs.extend(of_segment.map(|run| StoredRun::new(log.place, &run)));
        }
        let mut batch = self.shared.store.batch();
        self.shared.meta.put_segment(&mut batch, full.segment.id, &StoredSegment { bytes: full.bytes, runs });
        self.sealed.push(full);
        // Its records are synced; if this is lost, the next start looks into the segment.
        batch.commit(Durability::Buffered)
    }

    /// A log that must not outgrow its bound is looked at whenever it has grown by a segment.
    fn keep_size(&mut self) -> Result<(), StoreError> {
        if self.shared.options.retention_bytes.is_some() { self.sweep() } else { Ok(()) }
    }

    fn sweep(&mut self) -> Result<(), StoreError> {
        let logs = self.shared.catalog.logs();
        self.retain(&logs)?;
        self.clean(&logs)
    }

    fn clean(&mut self, logs: &[Arc<Log>]) -> Result<(), StoreError> {
        cleaner::clean(&self.shared, logs, &mut self.sealed)?;
        let kept: u64 = logs.iter().flat_map(|log| log.runs()).map(|run| run.bytes).sum();
        self.shared.metrics.bytes.set(i64::try_from(kept).unwrap_or(i64::MAX));
        Ok(())
    }

    fn retain(&mut self, logs: &[Arc<Log>]) -> Result<(), StoreError> {
        let needs = self.shared.needs.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let topic_id = |topic| self.shared.catalog.get(topic)?.info.id;
        let sealed: HashSet<u64> = self.sealed.iter().map(|sealed| sealed.segment.id).collect();
        let kept: Vec<Kept> = logs
            .iter()
            .map(|log| Kept {
                runs: log.runs().iter().map(|run| kept_run(run, &sealed)).collect(),
                needed: needs
                    .as_ref()
                    .and_then(|needs| needs.lowest_needed(&log.topic, topic_id(&log.topic)?, log.partition()))
                    .map(|offset| offset.0),
            })
            .collect();
        let policy = Policy {
            expired_before: needs.is_some().then(|| expired_before(&self.shared)),
            max_bytes: self.shared.options.retention_bytes,
        };
        let decision = retention::decide(&kept, policy);
        self.warn_of(decision.endangered.map(|(index, run)| (&logs[index], run)));
        self.drop_runs(logs, &decision.drops)
    }

    fn warn_of(&mut self, endangered: Option<(&Arc<Log>, KeptRun)>) {
        let Some((log, run)) = endangered else { return };
        if self.warned.as_ref().is_some_and(|(warned, base)| Arc::ptr_eq(warned, log) && *base == run.base) {
            return;
        }
        self.warned = Some((Arc::clone(log), run.base));
        tracing::warn!(
            topic = %log.topic, partition = %log.partition(), from = run.base, to = run.end - 1,
            "the log is nearly as large as retention_bytes allows; these records are next to be dropped, and some are not delivered yet: \
             raise retention_bytes, or mend the receiver that holds its group back"
        );
    }

    fn drop_runs(&self, logs: &[Arc<Log>], drops: &[Drop]) -> Result<(), StoreError> {
        if drops.is_empty() {
            return Ok(());
        }
        let mut batch = self.shared.store.batch();
        // One partition's drops come in order, so the last put is the highest; a key is put once.
        let last = drops.iter().map(|drop| (drop.index, drop.run.end)).collect::<std::collections::BTreeMap<_, _>>();
        for (&index, &first) in &last {
            self.shared.meta.put_first(&mut batch, logs[index].place, first);
        }
        batch.commit(Durability::Synced)?;
        for (&index, &first) in &last {
            logs[index].drop_below(first);
        }
        for drop in drops {
            self.report(&logs[drop.index], drop);
        }
        Ok(())
    }

    fn report(&self, log: &Log, drop: &Drop) {
        let (topic, partition) = (&log.topic, log.partition());
        let (from, to) = (Offset(drop.run.base), Offset(drop.run.end - 1));
        self.shared.metrics.dropped_records.get_or_create(&DroppedLabels { cause: drop.cause }).inc_by(drop.run.end - drop.run.base);
        match (drop.cause, drop.undelivered) {
            (Cause::Age, _) => tracing::info!(%topic, %partition, %from, %to, "records dropped: older than the retention"),
            (Cause::Size, false) => {
                tracing::info!(%topic, %partition, %from, %to, "records dropped: the log was larger than retention_bytes");
            }
            (Cause::Size, true) => {
                tracing::warn!(%topic, %partition, %from, %to, "records dropped that a group had not delivered: the log was larger than retention_bytes");
            }
        }
    }
}

fn kept_run(run: &Run, sealed: &HashSet<u64>) -> KeptRun {
    let sealed = sealed.contains(&run.segment.id);
    KeptRun { base: run.base, end: run.end, bytes: run.bytes, max_timestamp: run.max_timestamp, sealed }
}

/// Records before this are too old.
fn expired_before(shared: &Shared) -> TimestampMs {
    shared.now().saturating_sub(millis(shared.options.retention))
}

/// A segment with records from before this is closed, so that its oldest are not kept for its youngest.
pub(super) fn roll_before(shared: &Shared) -> TimestampMs {
    shared.now().saturating_sub(millis(shared.options.retention / 8))
}

fn millis(duration: std::time::Duration) -> TimestampMs {
    TimestampMs::try_from(duration.as_millis()).unwrap_or(TimestampMs::MAX)
}

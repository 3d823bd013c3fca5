//! One task per coordinator gathers the progress of many partitions into few transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::coordinator::{Commit, CommitError, Coordinator, CoordinatorError, DoneSet, Progress, Tries};
use common::ids::{Epoch, GroupPartition, Offset};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::stop::Stop;

/// Partitions in one transaction, at most.
const MAX_BATCH: usize = 64;
/// Requests that wait for the transaction before them. More wait at their senders.
const MAX_WAITING: usize = 1024;

/// Done sets that are written to one coordinator, on average: with more, the interval stretches.
const BYTES_PER_SECOND: u64 = 1 << 20;

/// A cheap handle. The task ends once every handle is gone.
#[derive(Clone)]
pub(crate) struct Committer {
    requests: mpsc::Sender<Request>,
    pace: Arc<Pace>,
}

struct Request {
    commit: Commit,
    answer: oneshot::Sender<Result<(), CommitError>>,
}

impl Committer {
    pub(crate) fn spawn(coordinator: Arc<dyn Coordinator>) -> (Self, JoinHandle<()>) {
        let (sender, requests) = mpsc::channel(MAX_WAITING);
        let pace = Arc::<Pace>::default();
        (Self { requests: sender, pace: pace.clone() }, tokio::spawn(serve(coordinator, requests, pace)))
    }

    /// Stores it with whatever else waits. At most one may be outstanding per partition.
    async fn commit(&self, commit: Commit) -> Result<(), CommitError> {
        let (answer, answered) = oneshot::channel();
        let gone = || CommitError::Coordinator(CoordinatorError::Unavailable("the committer has ended".into()));
        self.requests.send(Request { commit, answer }).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// While one transaction is under way the next one gathers: under load batches grow by themselves,
/// and an idle partition's commit waits for nothing.
async fn serve(coordinator: Arc<dyn Coordinator>, mut requests: mpsc::Receiver<Request>, pace: Arc<Pace>) {
    let mut debt = Debt::new(Instant::now());
    let mut waiting = Vec::with_capacity(MAX_BATCH);
    while requests.recv_many(&mut waiting, MAX_BATCH).await > 0 {
        let (commits, answers): (Vec<_>, Vec<_>) = waiting.drain(..).map(|request| (request.commit, request.answer)).unzip();
        let bytes = commits.iter().map(|commit| commit.progress.done.node_bytes(commit.progress.cursor) as u64).sum();
        pace.set(debt.add(bytes, Instant::now()));
        for (answer, result) in answers.into_iter().zip(coordinator.commit(&commits).await) {
            // A partition that was let go meanwhile no longer asks.
            let _ = answer.send(result);
        }
    }
}

/// How long a partition has to wait from one write to the next.
#[derive(Default)]
struct Pace(AtomicU64);

impl Pace {
    fn set(&self, pause: Duration) {
        self.0.store(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// What was written beyond what may be.
struct Debt {
    bytes: u64,
    at: Instant,
}

impl Debt {
    fn new(at: Instant) -> Self {
        Self { bytes: 0, at }
    }

    /// In which time it is paid.
    fn add(&mut self, bytes: u64, now: Instant) -> Duration {
        let paid = (now.saturating_duration_since(self.at).as_secs_f64() * BYTES_PER_SECOND as f64) as u64;
        self.bytes = self.bytes.saturating_sub(paid) + bytes;
        self.at = now;
        Duration::from_secs_f64(self.bytes as f64 / BYTES_PER_SECOND as f64)
    }
}

/// One epoch's way to the committer.
pub(crate) struct PartitionSink {
    pub(crate) at: GroupPartition,
    pub(crate) epoch: Epoch,
    pub(crate) committer: Committer,
    pub(crate) stop: Stop,
}

impl engine::ports::CursorSink for PartitionSink {
    async fn commit(&self, progress: engine::ports::Progress) -> Result<(), engine::ports::CommitError> {
        let commit = Commit { at: self.at.clone(), epoch: self.epoch, progress: to_coordinator(progress) };
        self.committer.commit(commit).await.map_err(|error| match error {
            CommitError::Coordinator(unknown) => engine::ports::CommitError::Again(unknown.to_string()),
            over @ (CommitError::Moved | CommitError::EpochOver) => {
                self.stop.commit_refused(&over);
                engine::ports::CommitError::Over(over.to_string())
            }
        })
    }

    fn least_interval(&self) -> Duration {
        self.committer.pace.get()
    }
}

/// Runs that touch become one: the coordinator's done set has only runs that are apart.
pub(crate) fn to_coordinator(progress: engine::ports::Progress) -> Progress {
    let mut runs = progress.done;
    runs.retain(|run| !run.is_empty());
    runs.dedup_by(|next, run| {
        let touches = next.start <= run.end;
        if touches {
            run.end = run.end.max(next.end);
        }
        touches
    });
    let done = DoneSet::from_runs(runs).expect("ascending runs that do not touch are a done set");
    let tries = Tries::of(progress.tries.into_iter().map(|(offset, attempts)| (Offset(offset.0), attempts)));
    Progress { cursor: Offset(progress.cursor.0), done, tries }
}

/// The engine's way to say the same.
pub(crate) fn to_engine(progress: &Progress) -> engine::ports::Progress {
    let tries = progress.tries.iter().map(|(offset, attempts)| (engine::ids::Offset(offset.0), attempts)).collect();
    engine::ports::Progress { cursor: engine::ids::Offset(progress.cursor.0), done: progress.done.runs().to_vec(), tries }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand partitions with full done sets, each written when it may be.
    #[test]
    fn large_done_sets_stretch_the_interval_to_a_megabyte_a_second() {
        const NODE: u64 = 64 << 10;
        let began = Instant::now();
        let (mut debt, mut now, mut written) = (Debt::new(began), began, 0);
        let mut due: Vec<Duration> = vec![Duration::ZERO; 1_000];
        while now < began + Duration::from_secs(600) {
            for due in &mut due {
                if began + *due <= now {
                    *due = (now - began) + debt.add(NODE, now).max(Duration::from_secs(1));
                    written += NODE;
                }
            }
            now += Duration::from_millis(100);
        }
        let per_second = written as f64 / 600.0 / BYTES_PER_SECOND as f64;
        assert!((0.5..1.2).contains(&per_second), "{per_second} MiB a second");
        assert_eq!(debt.add(0, now + Duration::from_secs(120)), Duration::ZERO);
        assert!(debt.add(1_000, now + Duration::from_secs(121)) < Duration::from_millis(1));
    }

    #[test]
    fn touching_runs_are_stored_as_one() {
        let engine = engine::ports::Progress {
            cursor: engine::ids::Offset(3),
            done: vec![4..6, 6..9, 10..11],
            tries: vec![(engine::ids::Offset(9), 2)],
        };
        let stored = to_coordinator(engine);
        assert_eq!(stored.done.runs(), [4..9, 10..11]);
        assert_eq!(to_engine(&stored).done, [4..9, 10..11]);
        assert_eq!(to_engine(&stored).tries, [(engine::ids::Offset(9), 2)]);
    }
}

//! One task per coordinator gathers the progress of many partitions into few transactions.

use std::sync::Arc;

use common::coordinator::{Commit, CommitError, Coordinator, CoordinatorError, DoneSet, Progress, Tries};
use common::ids::{Epoch, GroupPartition, Offset};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::stop::Stop;

/// Partitions in one transaction, at most.
const MAX_BATCH: usize = 64;
/// Requests that wait for the transaction before them. More wait at their senders.
const MAX_WAITING: usize = 1024;

/// A cheap handle. The task ends once every handle is gone.
#[derive(Clone)]
pub(crate) struct Committer(mpsc::Sender<Request>);

struct Request {
    commit: Commit,
    answer: oneshot::Sender<Result<(), CommitError>>,
}

impl Committer {
    pub(crate) fn spawn(coordinator: Arc<dyn Coordinator>) -> (Self, JoinHandle<()>) {
        let (sender, requests) = mpsc::channel(MAX_WAITING);
        (Self(sender), tokio::spawn(serve(coordinator, requests)))
    }

    /// Stores it with whatever else waits. At most one may be outstanding per partition.
    async fn commit(&self, commit: Commit) -> Result<(), CommitError> {
        let (answer, answered) = oneshot::channel();
        let gone = || CommitError::Coordinator(CoordinatorError::Unavailable("the committer has ended".into()));
        self.0.send(Request { commit, answer }).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// While one transaction is under way the next one gathers: under load batches grow by themselves,
/// and an idle partition's commit waits for nothing.
async fn serve(coordinator: Arc<dyn Coordinator>, mut requests: mpsc::Receiver<Request>) {
    let mut waiting = Vec::with_capacity(MAX_BATCH);
    while requests.recv_many(&mut waiting, MAX_BATCH).await > 0 {
        let (commits, answers): (Vec<_>, Vec<_>) = waiting.drain(..).map(|request| (request.commit, request.answer)).unzip();
        for (answer, result) in answers.into_iter().zip(coordinator.commit(&commits).await) {
            // A partition that was let go meanwhile no longer asks.
            let _ = answer.send(result);
        }
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

//! Keeps one partition of one group for as long as it is this process's: claims it, runs its loop,
//! takes up a cursor that somebody else moved, and gives it up.
//!
//! The epochs of a partition form a chain because one keeper goes through them one by one, and the
//! fleet starts a keeper only after the former of the same partition has ended.

use std::sync::Arc;
use std::time::Duration;

use common::coordinator::{Claim, ClaimError, Commit, CommitError};
use common::ids::{Epoch, GroupPartition, Partition, TopicId};
use engine::task::{Label, PartitionHandle, Permission, Status};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::backoff::Backoff;
use crate::births::{self, BackendError};
use crate::committer::{PartitionSink, to_coordinator, to_engine};
use crate::decode::Origin;
use crate::group::{Backends, Group};
use crate::source::{PartitionSource, Place};
use crate::stop::{Reason, Stop};

mod began;

/// The longest pause between two tries to claim.
const MAX_CLAIM_PAUSE: Duration = Duration::from_secs(10);
/// How long giving up is tried when the coordinator does not answer.
const GIVE_UP_TIMEOUT: Duration = Duration::from_secs(4);

/// Where a keeper is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `trouble`: why the last try failed.
    Claiming {
        trouble: Option<String>,
    },
    Serving(Epoch),
    /// Open attempts are ending, or the last cursor is being stored.
    Ending,
}

pub(crate) enum Command {
    Status(oneshot::Sender<Status>),
    /// The cursor was moved under this epoch.
    Adopt(Epoch),
}

/// The fleet's side of a keeper.
#[derive(Clone)]
pub(crate) struct KeeperHandle {
    /// Of the topic when the keeper was started.
    pub(crate) topic_id: Option<TopicId>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) let_go: CancellationToken,
}

pub(crate) struct Keeper {
    at: GroupPartition,
    group: Arc<Group>,
    backends: Arc<Backends>,
    permission: watch::Receiver<Permission>,
    phase: watch::Sender<Phase>,
    commands: mpsc::Receiver<Command>,
    let_go: CancellationToken,
}

/// What a keeper does next. Claim → Serve → (Adopt → Serve)* → `GiveUp` → Claim or End.
enum Step {
    Claim,
    Adopt(Epoch),
    Serve(Claim, Option<TopicId>),
    GiveUp { last: Commit, then: Then },
    End,
}

#[derive(Clone, Copy)]
enum Then {
    ClaimAgain,
    End,
}

impl Keeper {
    pub(crate) fn new(at: GroupPartition, topic_id: Option<TopicId>, group: Arc<Group>, backends: Arc<Backends>) -> (KeeperHandle, Self) {
        let (phase, phase_receiver) = watch::channel(Phase::Claiming { trouble: None });
        let (sender, commands) = mpsc::channel(8);
        let let_go = CancellationToken::new();
        let handle = KeeperHandle { topic_id, phase: phase_receiver, commands: sender, let_go: let_go.clone() };
        let permission = group.permission.subscribe();
        (handle, Self { at, group, backends, permission, phase, commands, let_go })
    }

    /// Until it is let go or its topic is gone.
    pub(crate) async fn keep(mut self) -> GroupPartition {
        let mut step = Step::Claim;
        loop {
            step = match step {
                Step::Claim => self.claim().await,
                Step::Adopt(epoch) => self.adopt(epoch).await,
                Step::Serve(claim, topic_id) => self.serve(claim, topic_id).await,
                Step::GiveUp { last, then } => {
                    self.give_up(last).await;
                    match then {
                        Then::ClaimAgain if self.rest(Backoff::FIRST).await => Step::Claim,
                        Then::ClaimAgain | Then::End => Step::End,
                    }
                }
                Step::End => return self.at,
            };
        }
    }

    async fn claim(&mut self) -> Step {
        let mut backoff = Backoff::new(MAX_CLAIM_PAUSE);
        while !self.let_go.is_cancelled() {
            match self.try_claim(None).await {
                Ok(step) => return step,
                Err(trouble) => self.report(&trouble),
            }
            if !self.rest(backoff.step()).await {
                break;
            }
        }
        Step::End
    }

    /// The partition is ours, but its cursor is somebody else's.
    async fn adopt(&mut self, epoch: Epoch) -> Step {
        let mut backoff = Backoff::new(MAX_CLAIM_PAUSE);
        loop {
            match self.try_claim(Some(epoch)).await {
                Ok(step) => return step,
                Err(Trouble::Claim(ClaimError::EpochOver)) => return Step::Claim,
                Err(trouble) => self.report(&trouble),
            }
            if !self.rest(backoff.step()).await {
                return Step::End;
            }
        }
    }

    /// Under a new claim, or as the successor of an epoch that we still own.
    async fn try_claim(&self, former: Option<Epoch>) -> Result<Step, Trouble> {
        let Backends { queue, coordinator, .. } = &*self.backends;
        let log = births::log_of(&**queue, &self.at.topic, self.at.partition).await.map_err(BackendError::from)?;
        let Some(log) = log else { return Ok(Step::End) };
        let claim = match former {
            None => coordinator.claim(&self.at, log).await,
            Some(epoch) => coordinator.adopt(&self.at, epoch, log).await,
        };
        match claim {
            Ok(claim) => {
                began::announce(&self.at, &claim, &self.backends.metrics);
                Ok(Step::Serve(claim, log.topic_id))
            }
            Err(ClaimError::NotBorn) => {
                births::write(&self.group.config, &self.at.topic, &**queue, &**coordinator).await?;
                Err(Trouble::Claim(ClaimError::NotBorn))
            }
            Err(error) => Err(Trouble::Claim(error)),
        }
    }

    /// Says so the first time, and whenever the reason is another one.
    fn report(&self, trouble: &Trouble) {
        self.backends.metrics.claim_failed(&self.at);
        let text = trouble.to_string();
        let said = matches!(&*self.phase.borrow(), Phase::Claiming { trouble: Some(before) } if *before == text);
        if said {
            return;
        }
        match trouble {
            Trouble::Claim(ClaimError::Held(_) | ClaimError::NotBorn) => {
                info!(group = %self.at.group, topic = %self.at.topic, partition = self.at.partition.0, reason = text, "the partition cannot be taken yet; it is tried again");
            }
            Trouble::Claim(_) | Trouble::Backend(_) => {
                error!(group = %self.at.group, topic = %self.at.topic, partition = self.at.partition.0, reason = text,
                    "the partition is not being delivered; taking it is tried again, other partitions go on");
            }
        }
        self.phase.send_replace(Phase::Claiming { trouble: Some(text) });
    }

    /// `false` once the partition is let go. A hint that something changed ends the rest early.
    async fn rest(&self, pause: Duration) -> bool {
        let mut hints = self.backends.coordinator.hints();
        hints.mark_unchanged();
        let rest = async {
            // However often hints come, tries are at least this far apart.
            tokio::time::sleep(pause.min(Backoff::FIRST)).await;
            tokio::select! {
                () = tokio::time::sleep(pause.saturating_sub(Backoff::FIRST)) => {}
                Ok(()) = hints.changed() => {}
            }
        };
        tokio::select! {
            () = self.let_go.cancelled() => false,
            () = rest => true,
        }
    }

    async fn serve(&mut self, claim: Claim, topic_id: Option<TopicId>) -> Step {
        if self.let_go.is_cancelled() {
            let last = Commit { at: self.at.clone(), epoch: claim.epoch, progress: claim.progress };
            return Step::GiveUp { last, then: Then::End };
        }
        let stop = Stop::default();
        let mut handle = self.start(&claim, topic_id, stop.clone());
        self.phase.send_replace(Phase::Serving(claim.epoch));
        let why = self.attend(&mut handle, claim.epoch, &stop).await;
        self.phase.send_replace(Phase::Ending);
        let grace = self.backends.grace;
        // Everything is cut by then; what may take longer is a commit that is not answered.
        match tokio::time::timeout(grace + GIVE_UP_TIMEOUT, handle.release(grace)).await {
            Ok(progress) => {
                let last = Commit { at: self.at.clone(), epoch: claim.epoch, progress: to_coordinator(progress) };
                self.after(why, last)
            }
            Err(_) => {
                let last = Commit { at: self.at.clone(), epoch: claim.epoch, progress: claim.progress };
                self.not_stored(&last, "the commit before it is not answered");
                Step::Claim
            }
        }
    }

    fn start(&mut self, claim: &Claim, topic_id: Option<TopicId>, stop: Stop) -> PartitionHandle {
        let Backends { queue, coordinator: _, committer, metrics, .. } = &*self.backends;
        let (at, epoch) = (self.at.clone(), claim.epoch);
        let label = Label { topic: at.topic.as_str().into(), partition: at.partition.0 };
        let origin = Origin::new(&at.topic, topic_id, "", Partition(at.partition.0));
        let place = Place { at: at.clone(), epoch, origin, from: claim.progress.cursor };
        let source = PartitionSource::new(queue.clone(), place, stop.clone(), metrics.clone());
        let sink = PartitionSink { at, epoch, committer: committer.clone(), stop };
        let handle = self.group.task.start(label, engine::ids::Epoch(epoch.0), to_engine(&claim.progress), source, sink);
        handle.set_permission(*self.permission.borrow_and_update());
        handle
    }

    /// Until there is a reason to end this epoch.
    async fn attend(&mut self, handle: &mut PartitionHandle, epoch: Epoch, stop: &Stop) -> Why {
        loop {
            tokio::select! {
                biased;
                () = self.let_go.cancelled() => return Why::LetGo,
                Ok(()) = self.permission.changed() => handle.set_permission(*self.permission.borrow_and_update()),
                ended = handle.ended() => return Why::Ended(stop.reason(), format!("{ended:?}")),
                Some(command) = self.commands.recv() => match command {
                    // The receiver may have stopped waiting.
                    Command::Status(answer) => drop(answer.send(handle.status().await)),
                    Command::Adopt(moved) if moved == epoch => return Why::Ended(Some(Reason::Moved), String::new()),
                    Command::Adopt(_) => {}
                },
            }
        }
    }

    fn after(&self, why: Why, last: Commit) -> Step {
        let GroupPartition { group, topic, partition } = &self.at;
        let (partition, cursor) = (partition.0, last.progress.cursor.0);
        self.phase.send_replace(Phase::Claiming { trouble: None });
        match why {
            Why::LetGo => Step::GiveUp { last, then: Then::End },
            Why::Ended(Some(Reason::Moved), _) => Step::Adopt(last.epoch),
            Why::Ended(Some(Reason::EpochOver), _) => {
                warn!(%group, %topic, partition, cursor, "the partition is no longer owned under this epoch; what was done since the last commit may be delivered again");
                Step::Claim
            }
            Why::Ended(Some(Reason::TopicGone(reason)), _) => {
                info!(%group, %topic, partition, cursor, reason, "the topic is gone; the partition is given up");
                Step::GiveUp { last, then: Then::End }
            }
            Why::Ended(Some(Reason::OutOfRange(reason)), _) => {
                warn!(%group, %topic, partition, cursor, reason, "what was to be read next is not in the log; the partition is claimed again");
                Step::GiveUp { last, then: Then::ClaimAgain }
            }
            Why::Ended(None, ended) => {
                error!(%group, %topic, partition, cursor, ended, "the partition's loop ended; the partition is claimed again");
                Step::GiveUp { last, then: Then::ClaimAgain }
            }
        }
    }

    /// Stores how far it came, together with giving the ownership up.
    async fn give_up(&self, mut last: Commit) {
        self.phase.send_replace(Phase::Ending);
        let deadline = Instant::now() + GIVE_UP_TIMEOUT;
        let mut backoff = Backoff::new(Duration::from_secs(1));
        loop {
            let reason = match self.backends.coordinator.release(&last).await {
                Ok(()) => return,
                Err(CommitError::EpochOver) => return self.not_stored(&last, "this epoch is over"),
                // The other's cursor stands: take it up and give that up.
                Err(CommitError::Moved) => match self.try_claim(Some(last.epoch)).await {
                    Ok(Step::Serve(claim, _)) => {
                        last = Commit { at: self.at.clone(), epoch: claim.epoch, progress: claim.progress };
                        String::new()
                    }
                    Ok(_) => return,
                    Err(trouble) => trouble.to_string(),
                },
                Err(CommitError::Coordinator(error)) => error.to_string(),
            };
            if Instant::now() >= deadline {
                return self.not_stored(&last, &reason);
            }
            tokio::time::sleep(backoff.step()).await;
        }
    }

    fn not_stored(&self, last: &Commit, reason: &str) {
        let GroupPartition { group, topic, partition } = &self.at;
        error!(%group, %topic, partition = partition.0, cursor = last.progress.cursor.0, reason,
            "the last cursor could not be stored; what was done since the last commit will be delivered again");
    }
}

enum Why {
    LetGo,
    /// The reason, if source or sink gave one; and what the engine says.
    Ended(Option<Reason>, String),
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Backend(#[from] BackendError),
}

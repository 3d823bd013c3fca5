//! Keeps one partition of one group for as long as it is this process's: claims it, runs its loop,
//! takes up a cursor that somebody else moved, and gives it up.
//!
//! The epochs of a partition form a chain because one keeper goes through them one by one, and the
//! fleet starts a keeper only after the former of the same partition has ended.

use std::sync::Arc;
use std::time::Duration;

use common::coordinator::{Claim, Commit};
use common::ids::{Epoch, GroupPartition, Partition, TopicId};
use engine::task::{Label, PartitionHandle, Permission, Status};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::backoff::Backoff;
use crate::committer::{PartitionSink, to_coordinator, to_engine};
use crate::decode::Origin;
use crate::group::{Allowed, Backends, Group};
use crate::source::{PartitionSource, Place};
use crate::stop::{Reason, Stop};

mod began;
mod claiming;
mod giving_up;

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
    allowed: watch::Receiver<Allowed>,
    /// Of [`Allowed`], as last passed on.
    cuts: u64,
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
        let allowed = group.allowed.subscribe();
        let cuts = allowed.borrow().cuts;
        (handle, Self { at, group, backends, allowed, cuts, phase, commands, let_go })
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

    /// One epoch, from its first read to the end of its last attempt.
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

    /// Nothing is attempted while the group may not work: its processor tests that as well, in case
    /// the loop is quicker than the permission.
    fn start(&mut self, claim: &Claim, topic_id: Option<TopicId>, stop: Stop) -> PartitionHandle {
        let Backends { queue, coordinator: _, committer, metrics, .. } = &*self.backends;
        let (at, epoch) = (self.at.clone(), claim.epoch);
        let label = Label { topic: at.topic.as_str().into(), partition: at.partition.0 };
        let origin = Origin::new(&at.topic, topic_id, "", Partition(at.partition.0));
        let place = Place { at: at.clone(), epoch, origin, from: claim.progress.cursor };
        let source = PartitionSource::new(queue.clone(), place, stop.clone(), metrics.clone());
        let sink = PartitionSink { at, epoch, committer: committer.clone(), stop };
        let handle = self.group.task.start(label, engine::ids::Epoch(epoch.0), to_engine(&claim.progress), source, sink);
        self.permit(&handle);
        handle
    }

    fn permit(&mut self, handle: &PartitionHandle) {
        let Allowed { permission, cuts } = *self.allowed.borrow_and_update();
        if std::mem::replace(&mut self.cuts, cuts) != cuts {
            handle.set_permission(Permission::Cut);
        }
        handle.set_permission(permission);
    }

    /// Until there is a reason to end this epoch.
    async fn attend(&mut self, handle: &mut PartitionHandle, epoch: Epoch, stop: &Stop) -> Why {
        loop {
            tokio::select! {
                biased;
                () = self.let_go.cancelled() => return Why::LetGo,
                Ok(()) = self.allowed.changed() => self.permit(handle),
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

    /// What follows from the end of an epoch, and what is said about it.
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
}

enum Why {
    LetGo,
    /// The reason, if source or sink gave one; and what the engine says.
    Ended(Option<Reason>, String),
}

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
use crate::fleet::Shared;
use crate::group::{Allowed, EpochGate, Group};
use crate::source::{PartitionSource, Place};
use crate::stop::{Reason, Stop};

mod began;
mod claiming;
mod giving_up;

/// How long giving up is tried when the coordinator does not answer and this process has to end.
const GIVE_UP_TIMEOUT: Duration = Duration::from_secs(4);

/// Where a keeper is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `trouble`: why the last try failed.
    Claiming {
        trouble: Option<Trouble>,
    },
    Serving(Epoch),
    /// Open attempts are ending, or the last cursor is being stored.
    Ending,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) text: String,
    pub(crate) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It is this partition's alone, or somebody else has it.
    Partition,
    /// Queue or coordinator do not answer.
    Backend,
}

pub(crate) enum Command {
    Status(oneshot::Sender<Status>),
    /// The cursor was moved under this epoch.
    Adopt(Epoch),
}

/// The fleet's side of a keeper.
#[derive(Clone)]
pub(crate) struct KeeperHandle {
    pub(crate) group: Arc<Group>,
    /// Of the topic when the keeper was started.
    pub(crate) topic_id: Option<TopicId>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) let_go: CancellationToken,
}

pub(crate) struct Keeper {
    at: GroupPartition,
    /// Of the log by which it was last claimed.
    topic_id: Option<TopicId>,
    group: Arc<Group>,
    shared: Arc<Shared>,
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
    /// The last of the former epoch, whose cursor was moved.
    Adopt(Commit),
    Serve(Won),
    GiveUp {
        last: Commit,
        then: Then,
    },
    End,
}

/// An ownership, and what it is an ownership of.
struct Won {
    claim: Claim,
    topic_id: Option<TopicId>,
    /// Of the lease, from before the claim: another one, and it is not owned any more.
    session: u64,
}

#[derive(Clone, Copy)]
enum Then {
    ClaimAgain,
    End,
}

impl Keeper {
    pub(crate) fn new(at: GroupPartition, topic_id: Option<TopicId>, group: Arc<Group>, shared: Arc<Shared>) -> (KeeperHandle, Self) {
        let (phase, phase_receiver) = watch::channel(Phase::Claiming { trouble: None });
        let (sender, commands) = mpsc::channel(8);
        let let_go = CancellationToken::new();
        let handle = KeeperHandle { group: group.clone(), topic_id, phase: phase_receiver, commands: sender, let_go: let_go.clone() };
        let allowed = group.allowed.subscribe();
        let cuts = allowed.borrow().cuts;
        (handle, Self { at, topic_id, group, shared, allowed, cuts, phase, commands, let_go })
    }

    /// Until it is let go or its topic is gone.
    pub(crate) async fn keep(mut self) -> GroupPartition {
        let mut step = Step::Claim;
        loop {
            step = match step {
                Step::Claim => self.claim().await,
                Step::Adopt(last) => self.adopt(last).await,
                Step::Serve(won) => self.serve(won).await,
                Step::GiveUp { last, then } => {
                    self.give_up(last).await;
                    match then {
                        Then::ClaimAgain if self.rest(Backoff::FIRST, &mut self.hints()).await => Step::Claim,
                        Then::ClaimAgain | Then::End => Step::End,
                    }
                }
                Step::End => return self.at,
            };
        }
    }

    /// One epoch, from its first read to the end of its last attempt.
    async fn serve(&mut self, won: Won) -> Step {
        let claim = &won.claim;
        self.topic_id = won.topic_id;
        if self.let_go.is_cancelled() {
            let last = Commit { at: self.at.clone(), epoch: claim.epoch, progress: claim.progress.clone() };
            return Step::GiveUp { last, then: Then::End };
        }
        let stop = Stop::default();
        let mut handle = self.start(&won, stop.clone());
        self.phase.send_replace(Phase::Serving(claim.epoch));
        let why = self.attend(&mut handle, &won, &stop).await;
        self.phase.send_replace(Phase::Ending);
        match self.release(&handle, why.grace(self.shared.grace)).await {
            Some(progress) => {
                let last = Commit { at: self.at.clone(), epoch: claim.epoch, progress: to_coordinator(progress) };
                self.after(why, last)
            }
            None => {
                // Not what was stored last: the commit under way may be stored yet, and is not to be taken back.
                let progress = to_coordinator(handle.status().await.progress);
                let last = Commit { at: self.at.clone(), epoch: claim.epoch, progress };
                Step::GiveUp { last, then: why.then() }
            }
        }
    }

    /// Open attempts may end; a lease that ends meanwhile cuts them. `None`: everything is cut, and
    /// a commit is still not answered.
    async fn release(&mut self, handle: &PartitionHandle, grace: Duration) -> Option<engine::ports::Progress> {
        let released = tokio::time::timeout(grace + GIVE_UP_TIMEOUT, handle.release(grace));
        tokio::pin!(released);
        loop {
            tokio::select! {
                biased;
                Ok(()) = self.allowed.changed() => self.permit(handle),
                released = &mut released => return released.ok(),
            }
        }
    }

    /// Nothing is attempted while the group may not work: the gate sees to that, in case the loop is
    /// quicker than the permission.
    fn start(&mut self, won: &Won, stop: Stop) -> PartitionHandle {
        let Won { claim, topic_id, session } = won;
        let Shared { coordinator, committer, metrics, .. } = &*self.shared;
        let (at, epoch) = (self.at.clone(), claim.epoch);
        let label = Label { topic: at.topic.as_str().into(), partition: at.partition.0 };
        let origin = Origin::new(&at.topic, *topic_id, "", Partition(at.partition.0));
        let place = Place { at: at.clone(), topic_id: *topic_id, epoch, origin, from: claim.progress.cursor };
        let source = PartitionSource::new(self.group.cluster.clone(), place, stop.clone(), metrics.clone());
        let sink = PartitionSink { at, epoch, committer: committer.clone(), stop };
        let gate = EpochGate { allowed: self.group.allowed.subscribe(), lease: coordinator.lease(), session: *session };
        let (epoch, from) = (engine::ids::Epoch(epoch.0), to_engine(&claim.progress));
        let handle = self.group.pipeline.start(gate, label, epoch, from, source, sink);
        self.permit(&handle);
        handle
    }

    fn permit(&mut self, handle: &PartitionHandle) {
        let Allowed { permission, cuts, losses: _ } = *self.allowed.borrow_and_update();
        if std::mem::replace(&mut self.cuts, cuts) != cuts {
            handle.set_permission(Permission::Cut);
        }
        handle.set_permission(permission);
    }

    /// Until there is a reason to end this epoch.
    async fn attend(&mut self, handle: &mut PartitionHandle, won: &Won, stop: &Stop) -> Why {
        let epoch = won.claim.epoch;
        while self.allowed.borrow().losses.sessions <= won.session {
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
        Why::SessionOver
    }

    /// What follows from the end of an epoch, and what is said about it.
    fn after(&self, why: Why, last: Commit) -> Step {
        let GroupPartition { group, topic, partition } = &self.at;
        let (partition, cursor) = (partition.0, last.progress.cursor.0);
        self.phase.send_replace(Phase::Claiming { trouble: None });
        match why {
            Why::LetGo => Step::GiveUp { last, then: Then::End },
            Why::SessionOver => Step::GiveUp { last, then: Then::ClaimAgain },
            Why::Ended(Some(Reason::Moved), _) => Step::Adopt(last),
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
    /// Known from the lease. Should the claim have been made in the new session, it is given up.
    SessionOver,
    /// The reason, if source or sink gave one; and what the engine says.
    Ended(Option<Reason>, String),
}

impl Why {
    /// How long open attempts may go on: not at all where somebody else may be making them.
    fn grace(&self, usual: Duration) -> Duration {
        match self {
            Self::SessionOver | Self::Ended(Some(Reason::EpochOver), _) => Duration::ZERO,
            Self::LetGo | Self::Ended(..) => usual,
        }
    }

    fn then(&self) -> Then {
        match self {
            Self::LetGo => Then::End,
            Self::SessionOver | Self::Ended(..) => Then::ClaimAgain,
        }
    }
}

//! The coordinator seam: who owns which partition of which group, and how far each has come.
//!
//! Every claim, commit, release and replay is one transaction over cursor and done set. The rules
//! are the same for every backend and lie in the pure modules beside it.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use self::done::{DoneSet, Tries};
pub use self::embedded::EmbeddedCoordinator;
pub use self::lease::{Lease, LeaseHolder, Losses};
pub use self::vacancy::Vacant;
pub use self::zookeeper::ZooKeeperCoordinator;
use crate::ids::{Epoch, GroupName, GroupPartition, Offset, Partition, Topic, TopicId};
use crate::record::TimestampMs;

pub mod assign;
pub mod birth;
pub mod claim;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod control;
pub mod cursor;
pub mod done;
pub mod embedded;
pub mod lease;
#[cfg(test)]
mod nodes;
pub mod vacancy;
pub mod zookeeper;

/// How far a group has come in one partition: the pair that is only ever written together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The next offset to deliver. Everything below is delivered, bypassed or skipped on record.
    pub cursor: Offset,
    /// What is done at or above the cursor.
    pub done: DoneSet,
    /// What has failed and is not done.
    pub tries: Tries,
}

/// This process as the others see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    pub instance: String,
    /// Of the rules by which partitions are shared: [`assign::PROTO`] of its version.
    pub proto: u32,
    /// Of this process's life: another process with the same instance name has another.
    pub boot: uuid::Uuid,
    pub host: String,
    pub pid: u32,
    pub version: String,
    /// Where its admin port answers, `host:port`.
    pub admin: String,
    /// The groups it serves, with their topics.
    pub groups: std::collections::BTreeMap<String, MemberGroup>,
    /// The transaction by which it entered the fleet as it is; 0 where that was not read.
    #[serde(skip)]
    pub entered: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberGroup {
    pub topics: Vec<Topic>,
    /// Of the group's configuration, so that a fleet with two configurations can be seen.
    pub config: String,
}

/// What the queue says about a partition at the moment of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Log {
    pub topic_id: Option<TopicId>,
    pub first: Offset,
    pub end: Offset,
    /// What [`ClaimError::PastEnd`] said before this was read: then it is not the log that was read too early.
    pub past_end: Option<Offset>,
}

/// Where a new group starts: written down once, before anything is read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Birth {
    pub topic_id: Option<TopicId>,
    /// By partition; empty when the topic does not exist yet. A partition beyond the list starts
    /// at its first offset.
    pub start: Vec<Offset>,
}

/// An ownership just won.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub epoch: Epoch,
    pub progress: Progress,
    pub began: Began,
}

/// Where a claim's cursor came from. All but the first two are loud: logged and counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Began {
    AtCursor,
    AtBirth,
    /// The topic was created anew since the cursor was written.
    TopicRecreated {
        abandoned: Offset,
    },
    /// Retention took what was next.
    BelowFirst {
        skipped: u64,
    },
    /// The log is shorter than the cursor says, although the topic is the same.
    LogTruncated {
        from: Offset,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    pub at: GroupPartition,
    pub epoch: Epoch,
    pub progress: Progress,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Control {
    pub paused: bool,
    /// The last 16 replay ids, oldest first.
    pub replays: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    pub group: GroupName,
    pub id: String,
    pub asked_at: TimestampMs,
    pub targets: Vec<ReplayTarget>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayTarget {
    pub topic: Topic,
    pub partition: Partition,
    pub to: Offset,
    pub topic_id: Option<TopicId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replayed {
    /// Old and new cursor of each target, in their order. `None`: there was no cursor yet.
    Moved(Vec<(Option<Offset>, Offset)>),
    /// This id was seen before; nothing was written.
    Repeated,
}

/// What stands in the store about one partition, whoever owns it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    pub progress: Option<Progress>,
    /// The owner's instance name.
    pub owner: Option<String>,
}

#[async_trait]
pub trait Coordinator: Send + Sync + 'static {
    /// Enters the fleet. Called again, it replaces what was said about this process.
    async fn join(&self, member: Member) -> Result<(), CoordinatorError>;

    /// Leaves the fleet, so that others take what this process releases, and keeps what it owns
    /// until it is released; nothing more can be claimed. The first step of a shutdown.
    async fn withdraw(&self) -> Result<(), CoordinatorError>;

    /// Leaves it; what is still owned is given up as it was last committed.
    async fn leave(&self) -> Result<(), CoordinatorError>;

    async fn members(&self) -> Result<Vec<Member>, CoordinatorError>;

    /// Writes down where a group starts in a topic, unless that is written already, or the group
    /// has a cursor there (then it is not new, and the start of the others is their first
    /// offset, as `log` says). Returns what stands.
    async fn birth(&self, group: &GroupName, topic: &Topic, birth: Birth, log: &[Log]) -> Result<Birth, CoordinatorError>;

    /// Takes ownership; nothing may be read before it is answered. Needs a birth, unless there is a
    /// cursor. What stands past the end of `log` is refused once, in case the end was read before it
    /// was written: only a log that was read after the refusal is found to be truncated.
    async fn claim(&self, at: &GroupPartition, log: Log) -> Result<Claim, ClaimError>;

    /// Takes up what somebody else wrote to an owned partition (a replay, a foreign set) under a
    /// new epoch. Every attempt of `epoch` must have ended.
    async fn adopt(&self, at: &GroupPartition, epoch: Epoch, log: Log) -> Result<Claim, ClaimError>;

    /// Stores progress of many partitions, each on its own: the answers are in their order.
    async fn commit(&self, commits: &[Commit]) -> Vec<Result<(), CommitError>>;

    /// Stores the last progress and gives the ownership up, in one transaction. After an error it
    /// is still owned: what was moved must be adopted before it can be released.
    async fn release(&self, last: &Commit) -> Result<(), CommitError>;

    async fn control(&self, group: &GroupName) -> Result<Control, CoordinatorError>;

    /// Keeps the replays that were seen.
    async fn set_paused(&self, group: &GroupName, paused: bool) -> Result<(), CoordinatorError>;

    /// Moves cursors, once for each id of the last [`control::MAX_REPLAYS`], in one transaction: all
    /// or none. Refuses more than [`control::MAX_TARGETS`] targets, and a partition named twice.
    /// Owners must adopt what was moved, also where the cursor is the same as before.
    async fn replay(&self, replay: &Replay) -> Result<Replayed, CoordinatorError>;

    /// Which of these no longer stand as their owner last wrote them, and must be adopted.
    async fn moved(&self, owned: &[(GroupPartition, Epoch)]) -> Result<Vec<GroupPartition>, CoordinatorError>;

    /// Which partitions of a topic have no owner, among so many.
    async fn vacant(&self, group: &GroupName, topic: &Topic, partitions: u32) -> Result<Vec<Vacant>, CoordinatorError>;

    /// How long a partition may be without an owner before the next in rank takes it; `None`: there is none.
    fn patience(&self) -> Option<Duration>;

    /// What stands about each, in their order; for operators.
    async fn standing(&self, at: &[GroupPartition]) -> Result<Vec<Standing>, CoordinatorError>;

    /// Changes whenever something a pusher decides by may have changed: a hint to read it afresh.
    fn hints(&self) -> watch::Receiver<u64>;

    /// Whether this process may still work on what it owns, whichever of its sessions owns it. Tested before every attempt.
    fn lease(&self) -> Lease;

    /// What is missing before this coordinator can serve; empty when all is well. For `/readyz`.
    fn missing(&self) -> Vec<String>;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorError {
    #[error("the coordinator does not answer: {0}")]
    Unavailable(String),
    #[error("instance {0:?} is another process of the fleet; give this one a name of its own (pusher.instance)")]
    InstanceTaken(String),
    #[error("{0}")]
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    #[error("owned by {0}")]
    Held(String),
    /// Never answered by a default.
    #[error("the cursor reads {0:?}, which is no offset; correct or remove it")]
    UnreadableCursor(String),
    #[error("where the group starts in this topic is not written down yet")]
    NotBorn,
    /// Read the log again, and try with [`Log::past_end`].
    #[error("the cursor and what is done above it reach to {0}, past the end that was read")]
    PastEnd(Offset),
    #[error("this epoch is over")]
    EpochOver,
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Somebody else wrote the cursor: adopt it.
    #[error("the cursor was moved by somebody else")]
    Moved,
    /// Write nothing more under this epoch.
    #[error("this epoch is over")]
    EpochOver,
    /// Not known to be stored. The next commit carries it again.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
}

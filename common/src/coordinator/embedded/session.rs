//! The verbs, over what this process owns (in memory) and what stands (in the store).
//!
//! Claims, births, releases, replays and controls are synced: an epoch must not come again, and
//! what an operator was told must stand. Commits are buffered: they survive `kill -9`, and after
//! the loss of the machine a cursor of some seconds before means repeats, never a loss.

use std::collections::HashMap;

use uuid::Uuid;

use super::super::done::node::{self, Header, Writer};
use super::super::{
    Birth, Claim, ClaimError, Commit, CommitError, Control, CoordinatorError, Log, Member, Progress, Replay, Replayed, Standing, Vacant,
    birth as rule, claim, control as limits,
};
use super::keys;
use super::transaction::Transaction;
use crate::ids::{Epoch, GroupName, GroupPartition, Topic, TopicId};
use crate::record::TimestampMs;
use crate::store::StoreError;

pub(super) struct Session {
    boot: Uuid,
    /// Of the last pair that was written.
    write: u64,
    /// The last one given out, by this process or one before.
    epoch: u64,
    member: Option<Member>,
    /// It takes nothing more, and keeps what it owns until that is released.
    withdrawn: bool,
    owned: HashMap<GroupPartition, Owned>,
    changed: bool,
}

struct Owned {
    epoch: Epoch,
    topic_id: Option<TopicId>,
    replayed_at: Option<TimestampMs>,
    state: State,
}

/// `Current` becomes `Moved` by a replay, and `Current` again when it is adopted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Current,
    /// A replay wrote the pair: the owner's progress must not.
    Moved,
}

impl Session {
    pub(super) fn open(transaction: &Transaction) -> Result<Self, StoreError> {
        let stored = transaction.get(keys::EPOCH)?.and_then(|bytes| bytes.try_into().ok());
        let epoch = stored.map_or(0, u64::from_be_bytes);
        Ok(Self { boot: Uuid::new_v4(), write: 0, epoch, member: None, withdrawn: false, owned: HashMap::new(), changed: false })
    }

    /// Whether there was something since the last call that others decide by.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn join(&mut self, member: Member) {
        self.member = Some(member);
        self.withdrawn = false;
        self.changed = true;
    }

    pub(super) fn withdraw(&mut self) {
        self.withdrawn = true;
        self.changed = true;
    }

    pub(super) fn leave(&mut self) {
        self.member = None;
        self.owned.clear();
        self.changed = true;
    }

    pub(super) fn members(&self) -> Vec<Member> {
        self.member.clone().filter(|_| !self.withdrawn).into_iter().collect()
    }

    pub(super) fn claim(&mut self, transaction: &mut Transaction, at: &GroupPartition, log: &Log) -> Result<Claim, ClaimError> {
        let Some(member) = &self.member else {
            return Err(CoordinatorError::Refused(format!("{at} cannot be claimed before this process has joined the fleet")).into());
        };
        if self.withdrawn {
            return Err(CoordinatorError::Refused(format!("{at} cannot be claimed by a process that has withdrawn from the fleet")).into());
        }
        if self.owned.contains_key(at) {
            return Err(ClaimError::Held(member.instance.clone()));
        }
        self.begin(transaction, at, log)
    }

    pub(super) fn adopt(
        &mut self,
        transaction: &mut Transaction,
        at: &GroupPartition,
        epoch: Epoch,
        log: &Log,
    ) -> Result<Claim, ClaimError> {
        match self.owned.get(at) {
            Some(owned) if owned.epoch == epoch => self.begin(transaction, at, log),
            _ => Err(ClaimError::EpochOver),
        }
    }

    fn begin(&mut self, transaction: &mut Transaction, at: &GroupPartition, log: &Log) -> Result<Claim, ClaimError> {
        transaction.writable()?;
        let stored = transaction.get(&keys::pair(at))?;
        let found = stored.as_deref().map(keys::decode_pair).unwrap_or_default();
        let birth = birth_of(transaction, &at.group, &at.topic)?;
        let (progress, began) = claim::decide(&claim::Found { birth: birth.as_ref(), ..found }, at.partition, log)?;
        self.epoch += 1;
        let epoch = Epoch(self.epoch);
        transaction.put(keys::EPOCH.to_vec(), epoch.0.to_be_bytes().to_vec());
        let replayed_at = found.done.and_then(|done| node::header(done.text).ok()).and_then(|header| header.replayed_at);
        self.owned.insert(at.clone(), Owned { epoch, topic_id: log.topic_id, replayed_at, state: State::Current });
        self.put_pair(transaction, at, &progress, (log.topic_id, replayed_at));
        Ok(Claim { epoch, progress, began })
    }

    pub(super) fn release(&mut self, transaction: &mut Transaction, last: &Commit) -> Result<(), CommitError> {
        self.commit(transaction, last)?;
        self.owned.remove(&last.at);
        self.changed = true;
        Ok(())
    }

    pub(super) fn commit(&mut self, transaction: &mut Transaction, commit: &Commit) -> Result<(), CommitError> {
        transaction.writable().map_err(CoordinatorError::from)?;
        let of = match self.owned.get(&commit.at) {
            Some(owned) if owned.epoch == commit.epoch => match owned.state {
                State::Current => (owned.topic_id, owned.replayed_at),
                State::Moved => return Err(CommitError::Moved),
            },
            _ => return Err(CommitError::EpochOver),
        };
        self.put_pair(transaction, &commit.at, &commit.progress, of);
        Ok(())
    }

    fn put_pair(
        &mut self,
        transaction: &mut Transaction,
        at: &GroupPartition,
        progress: &Progress,
        (topic_id, replayed_at): (Option<TopicId>, Option<TimestampMs>),
    ) {
        self.write += 1;
        let header = Header { writer: Writer { boot: self.boot, number: self.write }, topic_id, replayed_at };
        transaction.put(keys::pair(at), keys::encode_pair(progress, &header));
    }

    pub(super) fn set_paused(&mut self, transaction: &mut Transaction, group: &GroupName, paused: bool) -> Result<(), CoordinatorError> {
        transaction.writable()?;
        let control = Control { paused, ..control(transaction, group)? };
        self.put_control(transaction, group, &control);
        Ok(())
    }

    pub(super) fn replay(&mut self, transaction: &mut Transaction, replay: Replay) -> Result<Replayed, CoordinatorError> {
        limits::check(&replay)?;
        transaction.writable()?;
        let control = control(transaction, &replay.group)?;
        if control.has_seen(&replay.id) {
            return Ok(Replayed::Repeated);
        }
        let at = |topic: &Topic, partition| GroupPartition { group: replay.group.clone(), topic: topic.clone(), partition };
        let mut moved = Vec::with_capacity(replay.targets.len());
        for target in &replay.targets {
            let stored = transaction.get(&keys::pair(&at(&target.topic, target.partition)))?;
            let before = stored.and_then(|pair| claim::pair(&keys::decode_pair(&pair)).ok().flatten());
            moved.push((before.map(|before| before.cursor), target.to));
        }
        for target in &replay.targets {
            let at = at(&target.topic, target.partition);
            let progress = Progress { cursor: target.to, ..Progress::default() };
            self.put_pair(transaction, &at, &progress, (target.topic_id, Some(replay.asked_at)));
            if let Some(owned) = self.owned.get_mut(&at) {
                owned.state = State::Moved;
            }
        }
        self.put_control(transaction, &replay.group, &control.with_replay(replay.id));
        Ok(Replayed::Moved(moved))
    }

    fn put_control(&mut self, transaction: &mut Transaction, group: &GroupName, control: &Control) {
        let json = serde_json::to_vec(control).expect("texts and booleans are always JSON");
        transaction.put(keys::control(group), json);
        self.changed = true;
    }

    pub(super) fn moved(&self, owned: Vec<(GroupPartition, Epoch)>) -> Vec<GroupPartition> {
        let is_moved = |(at, epoch): &(GroupPartition, Epoch)| {
            self.owned.get(at).is_some_and(|owned| owned.epoch == *epoch && owned.state == State::Moved)
        };
        owned.into_iter().filter(is_moved).map(|(at, _)| at).collect()
    }

    pub(super) fn vacant(&self, all: Vec<GroupPartition>) -> Vec<Vacant> {
        let unowned = all.into_iter().filter(|at| !self.owned.contains_key(at));
        unowned.map(|at| Vacant { partition: at.partition, mark: self.epoch }).collect()
    }

    pub(super) fn standing(&self, transaction: &Transaction, at: &GroupPartition) -> Result<Standing, CoordinatorError> {
        let stored = transaction.get(&keys::pair(at))?;
        let progress = stored.and_then(|pair| claim::pair(&keys::decode_pair(&pair)).ok().flatten());
        let owner = self.member.as_ref().filter(|_| self.owned.contains_key(at)).map(|member| member.instance.clone());
        Ok(Standing { progress, owner })
    }
}

pub(super) fn birth(
    transaction: &mut Transaction,
    group: &GroupName,
    topic: &Topic,
    asked: Birth,
    log: &[Log],
) -> Result<Birth, CoordinatorError> {
    if let Some(birth) = birth_of(transaction, group, topic)? {
        return Ok(birth);
    }
    transaction.writable()?;
    let pairs = transaction.keys(&keys::pairs(group, topic))?;
    let has_cursor: Vec<_> = pairs.iter().filter_map(|pair| keys::partition_of(pair)).collect();
    let birth = rule::decide(asked, &has_cursor, log);
    let json = serde_json::to_vec(&birth).expect("ids and numbers are always JSON");
    transaction.put(keys::birth(group, topic), json);
    Ok(birth)
}

fn birth_of(transaction: &Transaction, group: &GroupName, topic: &Topic) -> Result<Option<Birth>, CoordinatorError> {
    read_json(transaction, &keys::birth(group, topic), || format!("where group {group} starts in topic {topic}"))
}

pub(super) fn control(transaction: &Transaction, group: &GroupName) -> Result<Control, CoordinatorError> {
    let control = read_json(transaction, &keys::control(group), || format!("the control of group {group}"))?;
    Ok(control.unwrap_or_default())
}

/// What cannot be read is never taken for absent.
fn read_json<T: serde::de::DeserializeOwned>(
    transaction: &Transaction,
    key: &[u8],
    what: impl FnOnce() -> String,
) -> Result<Option<T>, CoordinatorError> {
    let Some(json) = transaction.get(key)? else { return Ok(None) };
    let unreadable = |error| CoordinatorError::Unavailable(format!("{} cannot be read in the store: {error}", what()));
    serde_json::from_slice(&json).map(Some).map_err(unreadable)
}

impl From<claim::Refusal> for ClaimError {
    fn from(refusal: claim::Refusal) -> Self {
        match refusal {
            claim::Refusal::UnreadableCursor(text) => Self::UnreadableCursor(text),
            claim::Refusal::NotBorn => Self::NotBorn,
            claim::Refusal::PastEnd(highest) => Self::PastEnd(highest),
        }
    }
}

impl From<StoreError> for ClaimError {
    fn from(error: StoreError) -> Self {
        Self::Coordinator(error.into())
    }
}

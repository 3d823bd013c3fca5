//! What is true whatever any process believes: the log, what receivers acknowledged, and whether
//! every write and every attempt kept the invariants of the protocol.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::done::node;
use super::super::super::{Birth, Control, cursor};
use super::super::wire::Op;
use super::log::SimulatedLog;
use super::tree::{Tree, Znode};
use super::turns::Turns;
use crate::ids::{GroupName, GroupPartition, Offset, Partition, Topic, TopicId};

/// Of one partition, in the topic as it is now.
#[derive(Clone, Default)]
struct Ledger {
    /// Where an old tool left the group, before there was any of us.
    inherited: Option<u64>,
    /// Since the last replay below it.
    acknowledged: BTreeSet<u64>,
    /// On record: somebody moved the cursor past it.
    skipped: BTreeSet<u64>,
}

struct Attempt {
    id: u64,
    peer: usize,
    partition: usize,
    epoch: u64,
    offset: u64,
    /// A replay or a new topic came in between: its success does not count.
    stale: bool,
}

#[derive(Default)]
pub(super) struct Truth {
    log: SimulatedLog,
    ledgers: Vec<Ledger>,
    attempts: Vec<Attempt>,
    last_attempt: u64,
    /// Of each (process, partition), the epoch of its last attempt.
    attempted: BTreeMap<(usize, usize), u64>,
    /// Which session an epoch is of.
    epochs: BTreeMap<(usize, u64), i64>,
    /// The last first success of each (partition, epoch, key).
    order: BTreeMap<(usize, u64, u64), u64>,
    /// The last epoch of each partition whose owner node an old tool deleted: its owner may not know yet.
    disowned: BTreeMap<usize, u64>,
    /// Both nodes were deleted, and no owner has written since.
    unmoored: BTreeSet<usize>,
    /// A cursor that an old tool set beyond the end: whoever claims goes to the end, as it knew it.
    beyond: BTreeMap<usize, u64>,
    /// Processes that have read that the group is paused.
    paused: BTreeSet<usize>,
    /// Ids in the control node, ever.
    replays: BTreeSet<String>,
    pub(super) turns: Turns,
    pub(super) violation: Option<String>,
}

/// A partition's nodes before a transaction that writes its cursor.
pub(super) struct Before {
    partition: usize,
    cursor: Option<Znode>,
    done: Option<Znode>,
    owner: Option<Znode>,
}

pub(super) fn at(partition: usize) -> GroupPartition {
    let (group, topic) = (GroupName::new("g").unwrap(), Topic::new("t").unwrap());
    GroupPartition { group, topic, partition: Partition(u32::try_from(partition).unwrap()) }
}

const BIRTH: &str = "/mqgate/groups/g/topics/t";

fn path(what: &str, partition: usize) -> String {
    format!("/consumers/g/{what}/t/{partition}")
}

fn parsed(node: &Znode) -> Option<u64> {
    cursor::decode(&node.data).ok().map(|offset| offset.0)
}

fn topic_of(done: Option<&Znode>) -> Option<TopicId> {
    node::header(&done?.data).ok()?.topic_id
}

/// Two keys, so that one can wait while the other goes on.
pub(super) fn key(offset: u64) -> u64 {
    offset % 2
}

impl Truth {
    pub(super) fn new(log: SimulatedLog, inherited: &[Option<u64>]) -> Self {
        let ledgers = inherited.iter().map(|inherited| Ledger { inherited: *inherited, ..Ledger::default() }).collect();
        Self { log, ledgers, ..Self::default() }
    }

    pub(super) fn log(&self) -> &SimulatedLog {
        &self.log
    }

    fn violated(&mut self, invariant: u32, what: impl FnOnce() -> String) {
        self.violation.get_or_insert_with(|| format!("invariant {invariant}: {}", what()));
    }

    pub(super) fn append(&mut self, partition: usize, records: u64) {
        self.log.end[partition] += records;
    }

    pub(super) fn trim(&mut self, partition: usize, records: u64) {
        self.log.first[partition] = (self.log.first[partition] + records).min(self.log.end[partition]);
    }

    pub(super) fn add_partition(&mut self) {
        self.log.first.push(0);
        self.log.end.push(0);
        self.ledgers.push(Ledger::default());
    }

    /// A cursor that does not say of which topic it is counts for the new one too.
    pub(super) fn recreate(&mut self, tree: &Tree) {
        self.log.recreate();
        self.attempts.iter_mut().for_each(|attempt| attempt.stale = true);
        for (partition, ledger) in self.ledgers.iter_mut().enumerate() {
            let unnamed = topic_of(tree.get(&path("done", partition))).is_none();
            let cursor = tree.get(&path("offsets", partition)).and_then(parsed).filter(|_| unnamed);
            *ledger = Ledger { inherited: cursor, ..Ledger::default() };
        }
    }

    /// An old tool is about to delete a node. What it takes with it is on its account.
    pub(super) fn delete(&mut self, tree: &Tree, what: &str, partition: usize) {
        if what == "owners" {
            self.disowned.insert(partition, self.last_epoch(partition));
        }
        // Before anything of us is written, it is as if the group had never been there.
        if what == "offsets" && tree.get(BIRTH).is_none() {
            self.ledgers[partition].inherited = None;
        }
        // With both nodes gone an owner goes on from memory, whatever a replay wrote before.
        let other = if what == "done" { "offsets" } else { "done" };
        if what != "owners" && tree.get(&path(other, partition)).is_none() {
            let end = self.log.end[partition];
            self.ledgers[partition].acknowledged.extend(0..end);
            self.unmoored.insert(partition);
        }
        let Some(cursor) = tree.get(&path("offsets", partition)).and_then(parsed) else { return };
        let of_another = topic_of(tree.get(&path("done", partition))).is_some_and(|topic| topic != self.log.topic_id());
        let forgets_topic = what == "done" && of_another;
        let from_birth = if what == "offsets" { self.born(tree, partition).unwrap_or(0) } else { 0 };
        let skipped = if forgets_topic { 0..cursor } else { cursor..from_birth };
        self.ledgers[partition].skipped.extend(skipped);
    }

    pub(super) fn before(&self, tree: &Tree, ops: &[Op]) -> Vec<Before> {
        let of = |op: &Op| match op {
            Op::Create { path, .. } | Op::Set { path, .. } => path.strip_prefix("/consumers/g/offsets/t/")?.parse::<usize>().ok(),
            Op::Delete { .. } | Op::Exists { .. } => None,
        };
        let node = |what, partition| tree.get(&path(what, partition)).cloned();
        let before = |partition| Before {
            partition,
            cursor: node("offsets", partition),
            done: node("done", partition),
            owner: node("owners", partition),
        };
        ops.iter().filter_map(of).map(before).collect()
    }

    pub(super) fn after(&mut self, tree: &Tree, session: i64, ops: &[Op], before: Vec<Before>) {
        let control = ops.iter().find(|op| op.path().ends_with("/control")).and_then(|op| tree.get(op.path()));
        let replays = control.is_some();
        self.replays
            .extend(control.and_then(|node| serde_json::from_slice::<Control>(&node.data).ok()).into_iter().flat_map(|read| read.replays));
        for before in before {
            let partition = before.partition;
            let Some(now) = tree.get(&path("offsets", partition)).and_then(parsed) else { continue };
            match session {
                0 => self.set_by_a_tool(tree, &before, now),
                _ if replays => self.replayed(tree, &before, now),
                _ => self.written(tree, session, &before, now),
            }
        }
    }

    fn set_by_a_tool(&mut self, tree: &Tree, before: &Before, now: u64) {
        let (partition, from) = (before.partition, self.cursor_before(tree, before));
        self.ledgers[partition].skipped.extend(from..now);
        if now > self.log.end[partition] {
            self.beyond.insert(partition, now);
        }
    }

    /// In the topic as it is now.
    fn cursor_before(&self, tree: &Tree, before: &Before) -> u64 {
        if topic_of(before.done.as_ref()).is_some_and(|topic| topic != self.log.topic_id()) {
            return 0;
        }
        before.cursor.as_ref().and_then(parsed).or(self.begin(tree, before.partition)).unwrap_or(0)
    }

    fn replayed(&mut self, tree: &Tree, before: &Before, to: u64) {
        let (partition, from) = (before.partition, self.cursor_before(tree, before));
        // Made anew, nodes have the versions of the first ones again: their owner may still go on
        // from memory, on the account of who deleted both.
        if before.owner.is_some() && self.unmoored.contains(&partition) {
            self.ledgers[partition].skipped.extend(from..to);
            return;
        }
        let ledger = &mut self.ledgers[partition];
        ledger.skipped.extend(from..to);
        ledger.acknowledged.retain(|offset| *offset < to);
        ledger.skipped.retain(|offset| *offset < to);
        self.attempts.iter_mut().filter(|attempt| attempt.partition == partition).for_each(|attempt| attempt.stale = true);
    }

    fn written(&mut self, tree: &Tree, session: i64, before: &Before, now: u64) {
        let partition = before.partition;
        let unmoored = self.unmoored.remove(&partition);
        let topic = topic_of(tree.get(&path("done", partition)));
        if let Some(owner) = &before.owner
            && owner.owner != session
        {
            self.violated(3, || format!("session {session} wrote partition {partition} of session {}", owner.owner));
        }
        let last = self.last_epoch(partition);
        if tree.zxid.unsigned_abs() <= last {
            self.violated(3, || format!("epoch {} of partition {partition} after {last}", tree.zxid));
        }
        self.epochs.insert((partition, tree.zxid.unsigned_abs()), session);
        let end = self.log.end_of(topic, partition);
        if now > end {
            self.violated(8, || format!("cursor {now} of partition {partition}, whose end is {end}"));
        }
        let fell = before.cursor.as_ref().and_then(parsed).filter(|from| *from > now);
        let anew = topic_of(before.done.as_ref()) != topic;
        let truncated = |from: &u64| *from > end || self.beyond.get(&partition) == Some(from);
        if let Some(from) = fell.filter(|from| !anew && !unmoored && !truncated(from)) {
            self.violated(6, || format!("the cursor of partition {partition} fell from {from} to {now}"));
        }
    }

    fn last_epoch(&self, partition: usize) -> u64 {
        self.epochs.range((partition, 0)..(partition + 1, 0)).next_back().map_or(0, |((_, epoch), _)| *epoch)
    }

    /// That of the last attempt, or of a later write under another session.
    pub(super) fn epoch_of(&self, peer: usize, partition: usize, sessions: &[i64]) -> u64 {
        let mut written = self.epochs.range((partition, 0)..(partition + 1, 0)).rev();
        let (last, session) =
            written.find(|(_, session)| sessions.contains(session)).map_or((0, 0), |((_, epoch), session)| (*epoch, *session));
        let attempted = self.attempted.get(&(peer, partition)).copied();
        attempted.filter(|epoch| self.epochs.get(&(partition, *epoch)) == Some(&session)).unwrap_or(last)
    }

    /// Where the group began, if that is known yet.
    fn begin(&self, tree: &Tree, partition: usize) -> Option<u64> {
        self.ledgers[partition].inherited.or(self.born(tree, partition))
    }

    /// The start that is written down, of this topic.
    fn born(&self, tree: &Tree, partition: usize) -> Option<u64> {
        let birth: Birth = serde_json::from_slice(&tree.get(BIRTH)?.data).ok()?;
        let of_this = birth.topic_id == Some(self.log.topic_id());
        of_this.then(|| birth.start.get(partition).map_or(0, |offset| offset.0))
    }

    /// What must hold of the nodes between any two steps.
    pub(super) fn check(&mut self, tree: &Tree) {
        for partition in 0..self.ledgers.len() {
            let Some(node) = tree.get(&path("offsets", partition)) else { continue };
            let Some(cursor) = parsed(node) else { continue };
            let done = tree.get(&path("done", partition));
            if topic_of(done).is_some_and(|topic| topic != self.log.topic_id()) {
                continue;
            }
            let (ledger, first) = (&self.ledgers[partition], self.log.first[partition]);
            let begin = self.begin(tree, partition).unwrap_or(0);
            let known = |offset: &u64| *offset < first || ledger.acknowledged.contains(offset) || ledger.skipped.contains(offset);
            let lost = (begin..cursor.min(self.log.end[partition])).find(|offset| !known(offset));
            let counts = done.filter(|done| done.mzxid == node.mzxid).and_then(|done| node::decode(&done.data, Offset(cursor)).ok());
            let runs = counts.map(|(_, progress)| progress.done.runs().to_vec()).unwrap_or_default();
            let untrue = runs.into_iter().flatten().find(|offset| !ledger.acknowledged.contains(offset));
            if let Some(lost) = lost {
                self.violated(1, || format!("offset {lost} of partition {partition} is below the cursor {cursor}, and nobody has it"));
            }
            if let Some(untrue) = untrue {
                self.violated(2, || {
                    format!("offset {untrue} of partition {partition} is in the done set above {cursor}, and nobody has it")
                });
            }
        }
    }

    pub(super) fn has_read(&mut self, peer: usize, paused: bool) {
        let _ = if paused { self.paused.insert(peer) } else { self.paused.remove(&peer) };
    }

    /// With success: it stands.
    pub(super) fn replay_answered(&mut self, id: &str) {
        if !self.replays.contains(id) {
            self.violated(6, || format!("replay {id} was answered, and nobody wrote it"));
        }
    }

    /// `alive`: of sessions; `frozen`: of processes.
    pub(super) fn attempt(
        &mut self,
        peer: usize,
        (partition, epoch, offset): (usize, u64, u64),
        value: &[u8],
        alive: impl Fn(i64) -> bool,
        frozen: impl Fn(usize) -> bool,
    ) -> u64 {
        let session = self.epochs.get(&(partition, epoch)).copied();
        if !session.is_some_and(alive) {
            self.violated(4, || format!("an attempt at offset {offset} of partition {partition} under a session that is over"));
        }
        if self.paused.contains(&peer) {
            self.violated(7, || {
                format!("process {peer} attempts offset {offset} of partition {partition} after it read that its group is paused")
            });
        }
        let disowned = self.disowned.get(&partition).copied().unwrap_or(0);
        let same = |other: &&Attempt| {
            let live = !frozen(other.peer) && epoch > disowned && other.epoch > disowned;
            live && other.partition == partition && key(other.offset) == key(offset)
        };
        if let Some((other, by)) = self.attempts.iter().find(same).map(|other| (other.offset, other.peer)) {
            self.violated(5, || {
                format!("process {peer} attempts offset {offset} of partition {partition} while {by} attempts {other} of its key")
            });
        }
        self.last_attempt += 1;
        self.attempted.insert((peer, partition), epoch);
        self.attempts.push(Attempt { id: self.last_attempt, peer, partition, epoch, offset, stale: !self.log.is_of_now(value) });
        self.last_attempt
    }

    /// Ended; `acknowledged` by the receiver, or cut.
    pub(super) fn ended(&mut self, id: u64, acknowledged: bool) {
        let Some(index) = self.attempts.iter().position(|attempt| attempt.id == id) else { return };
        let Attempt { partition, epoch, offset, stale, .. } = self.attempts.swap_remove(index);
        if !acknowledged || stale || !self.ledgers[partition].acknowledged.insert(offset) {
            return;
        }
        let before = self.order.insert((partition, epoch, key(offset)), offset);
        if let Some(before) = before.filter(|before| *before > offset) {
            self.violated(5, || format!("offset {offset} of partition {partition} was first done after {before} of its key"));
        }
    }

    /// With its process.
    pub(super) fn gone(&mut self, peer: usize) {
        self.paused.remove(&peer);
        self.attempts.retain(|attempt| attempt.peer != peer);
    }

    pub(super) fn attempts_made(&self) -> u64 {
        self.last_attempt
    }

    /// What is not as it is to be once everything is well and receivers answer.
    pub(super) fn unfinished(&self, tree: &Tree) -> Option<String> {
        (0..self.ledgers.len()).find_map(|partition| {
            let cursor = tree.get(&path("offsets", partition)).and_then(parsed);
            let owned = tree.get(&path("owners", partition)).is_some();
            let end = self.log.end[partition];
            match cursor {
                _ if !owned => Some(format!("partition {partition} has no owner")),
                _ if self.turns.are_taken_early(tree, partition, self.log.partitions()) => {
                    Some(format!("partition {partition} is kept by who is not to have it"))
                }
                Some(cursor) if cursor == end => None,
                cursor => Some(format!("the cursor of partition {partition} is {cursor:?}, its end {end}")),
            }
        })
    }
}

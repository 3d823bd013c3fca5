//! What became of a write that failed or was not answered, decided from the three nodes: "Outcome".

use super::super::done::node::{self, Writer};
use super::super::{Progress, claim};
use super::store::Then;
use crate::ids::{Epoch, Offset, TopicId};
use crate::record::TimestampMs;

/// A node as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Node {
    pub(super) data: Vec<u8>,
    pub(super) version: i32,
    pub(super) mzxid: i64,
    /// The session that made it, if it is ephemeral; else 0.
    pub(super) session: i64,
}

/// Owner, cursor and done set of one partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Nodes {
    pub(super) owner: Option<Node>,
    pub(super) cursor: Option<Node>,
    pub(super) done: Option<Node>,
}

/// The pair as this process last wrote it, or is to find it. `None`: there is no such node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Base {
    pub(super) cursor: Option<i32>,
    pub(super) done: Option<i32>,
    pub(super) mzxid: i64,
}

/// A partition of this session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Owned {
    pub(super) epoch: Epoch,
    pub(super) base: Base,
    pub(super) writer: Writer,
    pub(super) cursor: Offset,
    pub(super) topic_id: Option<TopicId>,
    pub(super) replayed_at: Option<TimestampMs>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It had succeeded, and this is what stands.
    Stored(Base),
    /// It had not, and may be sent again over this.
    Again(Base),
    /// Somebody else wrote the pair.
    Moved,
    /// The partition is not this session's any more.
    Over,
}

impl Nodes {
    pub(super) fn is_of(&self, session: i64) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.session == session)
    }

    /// The base, if `writer` wrote the pair and nobody has touched either since.
    pub(super) fn written_by(&self, writer: Writer) -> Option<Base> {
        let (cursor, done) = (self.cursor.as_ref()?, self.done.as_ref()?);
        (self.writer() == Some(writer) && cursor.mzxid == done.mzxid).then(|| self.base())
    }

    pub(super) fn base(&self) -> Base {
        let version = |node: &Option<Node>| node.as_ref().map(|node| node.version);
        Base { cursor: version(&self.cursor), done: version(&self.done), mzxid: self.cursor.as_ref().map_or(0, |cursor| cursor.mzxid) }
    }

    /// The cursor is missing, and nobody else wrote the done set since.
    pub(super) fn lack_only_what_we_wrote(&self, owned: &Owned) -> bool {
        self.cursor.is_none() && self.done.as_ref().is_none_or(|done| done.mzxid == owned.base.mzxid)
    }

    pub(super) fn header(&self) -> Option<node::Header> {
        node::header(&self.done.as_ref()?.data).ok()
    }

    fn writer(&self) -> Option<Writer> {
        self.header().map(|header| header.writer)
    }

    pub(super) fn found(&self) -> claim::Found<'_> {
        claim::Found { cursor: self.cursor.as_ref().map(shown), done: self.done.as_ref().map(shown), birth: None }
    }

    /// The pair as a claim would find it, or nothing where it cannot be read.
    pub(super) fn pair(&self) -> Option<Progress> {
        claim::pair(&self.found()).ok().flatten()
    }
}

fn shown(node: &Node) -> claim::Node<'_> {
    claim::Node { text: &node.data, mzxid: node.mzxid.unsigned_abs() }
}

/// What became of the write of `attempted` over `owned`.
pub(super) fn judge(nodes: &Nodes, session: i64, owned: &Owned, attempted: Writer, then: Then) -> Verdict {
    if let Some(base) = nodes.written_by(attempted) {
        return Verdict::Stored(base);
    }
    if !nodes.is_of(session) {
        // A release that succeeded before somebody else moved the cursor, or an ownership lost.
        let released = then == Then::Release && nodes.writer() == Some(attempted);
        return if released { Verdict::Stored(nodes.base()) } else { Verdict::Over };
    }
    let untouched = |node: &Node| node.mzxid == owned.base.mzxid;
    // What is missing is made again from memory, if what is left is as we wrote it.
    if nodes.cursor.iter().chain(&nodes.done).all(untouched) {
        return Verdict::Again(Base { mzxid: owned.base.mzxid, ..nodes.base() });
    }
    Verdict::Moved
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::super::done::node::{Header, encode};
    use super::*;

    const ME: i64 = 7;

    fn writer(number: u64) -> Writer {
        Writer { boot: Uuid::from_u128(1), number }
    }

    fn node(data: &str, version: i32, mzxid: i64) -> Node {
        Node { data: data.into(), version, mzxid, session: 0 }
    }

    /// The pair as write `number` left it in transaction `mzxid`, and an owner.
    fn nodes(number: u64, mzxid: i64, session: i64) -> Nodes {
        let header = Header { writer: writer(number), topic_id: None, replayed_at: None };
        let done = encode(&header, &Progress { cursor: Offset(5), ..Progress::default() });
        let owner = (session != 0).then(|| Node { session, ..node("me", 0, 1) });
        Nodes { owner, cursor: Some(node("5", 3, mzxid)), done: Some(node(&done, 4, mzxid)) }
    }

    /// Last written by 1 in transaction 10.
    fn owned() -> Owned {
        let base = Base { cursor: Some(3), done: Some(4), mzxid: 10 };
        Owned { epoch: Epoch(9), base, writer: writer(1), cursor: Offset(5), topic_id: None, replayed_at: None }
    }

    fn verdict(nodes: &Nodes) -> Verdict {
        judge(nodes, ME, &owned(), writer(2), Then::Keep)
    }

    #[test]
    fn a_write_whose_answer_was_lost_is_known_by_its_mark() {
        assert_eq!(verdict(&nodes(2, 11, ME)), Verdict::Stored(Base { cursor: Some(3), done: Some(4), mzxid: 11 }));
        assert!(matches!(verdict(&nodes(2, 11, 0)), Verdict::Stored(_)), "a release takes its owner away");
    }

    #[test]
    fn a_foreign_set_after_it_is_never_written_over() {
        let mut moved = nodes(2, 11, ME);
        moved.cursor = Some(node("99", 8, 12));
        assert_eq!(verdict(&moved), Verdict::Moved);
        // Nor when the owner node is gone too: a release may have taken it away, a commit has not.
        moved.owner = None;
        assert_eq!(verdict(&moved), Verdict::Over);
        assert!(matches!(judge(&moved, ME, &owned(), writer(2), Then::Release), Verdict::Stored(_)));
    }

    #[test]
    fn the_same_process_moves_a_cursor_too_by_a_replay() {
        assert_eq!(verdict(&nodes(3, 12, ME)), Verdict::Moved);
    }

    #[test]
    fn without_its_owner_node_nothing_more_is_written() {
        assert_eq!(verdict(&nodes(1, 10, 0)), Verdict::Over);
        assert_eq!(verdict(&nodes(1, 10, 8)), Verdict::Over);
    }

    #[test]
    fn a_node_that_was_deleted_is_made_again_from_memory() {
        let mut without = nodes(1, 10, ME);
        without.cursor = None;
        assert_eq!(verdict(&without), Verdict::Again(Base { cursor: None, done: Some(4), mzxid: 10 }));
        without.done = None;
        assert_eq!(verdict(&without), Verdict::Again(Base { cursor: None, done: None, mzxid: 10 }));
    }

    #[test]
    fn a_cursor_deleted_and_set_anew_is_somebody_elses() {
        let mut anew = nodes(1, 10, ME);
        anew.cursor = Some(node("0", 3, 12));
        assert_eq!(verdict(&anew), Verdict::Moved);
    }

    /// Found by the model test: a replay, and then its cursor deleted before the owner had seen it.
    #[test]
    fn a_cursor_deleted_after_a_replay_is_not_put_back_from_memory() {
        let mut replayed = nodes(7, 12, ME);
        replayed.cursor = None;
        assert_eq!(verdict(&replayed), Verdict::Moved);
        assert!(!replayed.lack_only_what_we_wrote(&owned()));
        let mut ours = nodes(1, 10, ME);
        ours.cursor = None;
        assert!(ours.lack_only_what_we_wrote(&owned()));
        ours.done = None;
        assert!(ours.lack_only_what_we_wrote(&owned()));
    }

    #[test]
    fn what_nobody_touched_is_sent_again() {
        assert_eq!(verdict(&nodes(1, 10, ME)), Verdict::Again(owned().base));
    }
}

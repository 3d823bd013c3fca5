//! Commit and release: many pairs in one transaction, each of which may fail on its own.

use super::super::done::node::{self, Header, Writer};
use super::super::{Commit, CommitError, CoordinatorError, cursor};
use super::core::Core;
use super::outcome::{self, Base, Owned, Verdict};
use super::paths;
use super::wire::{Op, WriteError, Written};

/// Of one transaction.
const MAX_PARTITIONS: usize = 64;
const MAX_BYTES: usize = 256 * 1024;

/// Of a pair that nobody wrote, and that can still not be stored.
const MAX_TRIES: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Keep,
    Release,
}

type Outcome = Result<(), CommitError>;

/// One pair on its way.
struct Item {
    index: usize,
    commit: Commit,
    owned: Owned,
    writer: Writer,
    done: String,
    then: Then,
    tries: usize,
}

pub(super) async fn store(core: Core, commits: Vec<Commit>, then: Then) -> Vec<Outcome> {
    let asked = commits.clone();
    let begin = move |state: &mut super::state::State| asked.iter().map(|c| state.begin_store(&c.at, c.epoch)).collect::<Vec<_>>();
    let begun = match core.ask(begin).await {
        Ok(begun) => begun,
        Err(error) => return vec![Err(error.into()); commits.len()],
    };
    let mut outcomes: Vec<Outcome> = vec![Ok(()); commits.len()];
    let mut items = Vec::new();
    let mut session = None;
    for (index, (commit, begun)) in commits.into_iter().zip(begun).enumerate() {
        match begun {
            Ok((of, owned)) => {
                session = Some(of);
                items.push(Item::new(&core, index, commit, owned, then));
            }
            Err(error) => outcomes[index] = Err(error),
        }
    }
    if let Some(session) = session {
        for chunk in chunks(&core, items) {
            store_chunk(&core, session, chunk, &mut outcomes).await;
        }
    }
    outcomes
}

fn chunks(core: &Core, items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut chunks: Vec<Vec<Item>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let more = core.wire.bytes(&item.ops());
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < MAX_PARTITIONS && bytes + more <= MAX_BYTES => {
                bytes += more;
                chunk.push(item);
            }
            _ => {
                bytes = more;
                chunks.push(vec![item]);
            }
        }
    }
    chunks
}

async fn store_chunk(core: &Core, session: i64, mut items: Vec<Item>, outcomes: &mut [Outcome]) {
    while !items.is_empty() {
        let ops: Vec<Op> = items.iter().flat_map(Item::ops).collect();
        match core.write(session, &ops).await {
            Ok(written) => {
                for (item, base) in bases(std::mem::take(&mut items), &written) {
                    item.end(core, session, Verdict::Stored(base), outcomes).await;
                }
            }
            // Sent before without an answer, any of them may have been stored.
            Err(WriteError::Conflict { repeated: true, .. }) => {
                let mut rest = Vec::new();
                for item in items {
                    rest.extend(settle(core, session, item, outcomes).await);
                }
                items = rest;
            }
            Err(WriteError::Conflict { index, .. }) => {
                let failed = items.remove(item_of(&items, index));
                items.extend(settle(core, session, failed, outcomes).await);
            }
            Err(WriteError::SessionOver) => {
                for item in items.drain(..) {
                    outcomes[item.index] = Err(CommitError::EpochOver);
                }
            }
            Err(WriteError::Refused(error)) => {
                for item in items.drain(..) {
                    let at = item.commit.at.clone();
                    let _ = core.ask(move |state| state.end_unchanged(session, &at)).await;
                    outcomes[item.index] = Err(error.clone().into());
                }
            }
        }
    }
}

/// Each with what its pair is now. Without the servers' numbers nothing more is known than before.
fn bases(items: Vec<Item>, written: &Written) -> Vec<(Item, Base)> {
    let mut stats = written.stats.iter();
    let base = |item: Item| {
        let (done, cursor) = (stats.next().and_then(Option::as_ref), stats.next().and_then(Option::as_ref));
        if item.then == Then::Release {
            stats.next();
        }
        let base = Base { cursor: cursor.map(|s| s.version), done: done.map(|s| s.version), mzxid: cursor.map_or(0, |s| s.mzxid) };
        (item, base)
    };
    items.into_iter().map(base).collect()
}

/// Which item the operation of that index belongs to.
fn item_of(items: &[Item], operation: usize) -> usize {
    let mut end = 0;
    items
        .iter()
        .position(|item| {
            end += item.operations();
            operation < end
        })
        .unwrap_or(0)
}

/// Reads what became of it; what is to be sent again is given back.
async fn settle(core: &Core, session: i64, mut item: Item, outcomes: &mut [Outcome]) -> Option<Item> {
    let Some(nodes) = core.nodes_surely(session, &item.commit.at).await else {
        outcomes[item.index] = Err(CommitError::EpochOver);
        return None;
    };
    match outcome::judge(&nodes, session, &item.owned, item.writer, item.then) {
        Verdict::Again(base) if item.tries < MAX_TRIES => {
            item.tries += 1;
            item.owned.base = base;
            if base.cursor.is_none() || base.done.is_none() {
                let commit = &item.commit;
                tracing::error!(group = %commit.at.group, topic = %commit.at.topic, partition = commit.at.partition.0, cursor = commit.progress.cursor.0,
                    "nodes of an owned partition were deleted by somebody else; they are made again from memory");
                if let Some(link) = core.wire.on(session).await {
                    // What cannot be made is found out by the next try.
                    let _ = core.wire.make_parents(&link, &item.ops()).await;
                }
            }
            Some(item)
        }
        verdict => {
            item.end(core, session, verdict, outcomes).await;
            None
        }
    }
}

impl Item {
    fn new(core: &Core, index: usize, commit: Commit, owned: Owned, then: Then) -> Self {
        let writer = core.next_writer();
        let header = Header { writer, topic_id: owned.topic_id, replayed_at: owned.replayed_at };
        let done = node::encode(&header, &commit.progress);
        Self { index, commit, owned, writer, done, then, tries: 0 }
    }

    /// Done set, cursor, and the owner's end.
    fn ops(&self) -> Vec<Op> {
        let (at, base) = (&self.commit.at, &self.owned.base);
        let done = Op::put(paths::done(at), self.done.as_bytes(), base.done);
        let cursor = Op::put(paths::cursor(at), cursor::encode(self.commit.progress.cursor), base.cursor);
        let owner = (self.then == Then::Release).then(|| Op::Delete { path: paths::owner(at) });
        [done, cursor].into_iter().chain(owner).collect()
    }

    fn operations(&self) -> usize {
        match self.then {
            Then::Keep => 2,
            Then::Release => 3,
        }
    }

    async fn end(self, core: &Core, session: i64, verdict: Verdict, outcomes: &mut [Outcome]) {
        let Self { index, commit, owned, writer, then, .. } = self;
        let (at, epoch) = (commit.at, commit.epoch);
        let ended = match verdict {
            Verdict::Stored(base) => {
                let owned = (then == Then::Keep).then_some(Owned { base, writer, cursor: commit.progress.cursor, ..owned });
                let end = move |state: &mut super::state::State| {
                    state.end(session, &at, owned);
                    if then == Then::Release || state.owns(&at, epoch) { Ok(()) } else { Err(CommitError::EpochOver) }
                };
                core.ask(end).await
            }
            Verdict::Over => core.ask(move |state| state.end(session, &at, None)).await.map(|()| Err(CommitError::EpochOver)),
            Verdict::Moved => core.ask(move |state| state.end_unchanged(session, &at)).await.map(|()| Err(CommitError::Moved)),
            Verdict::Again(_) => {
                let busy = CoordinatorError::Unavailable(format!("the nodes of {at} change all the time"));
                core.ask(move |state| state.end_unchanged(session, &at)).await.map(|()| Err(busy.into()))
            }
        };
        outcomes[index] = ended.unwrap_or_else(|error| Err(error.into()));
    }
}

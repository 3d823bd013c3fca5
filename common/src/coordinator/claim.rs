//! Where an owner begins, decided from what stands in the store and in the log: step 2 of "Claim".

use super::{Began, Birth, Log, Progress, cursor};
use crate::coordinator::done::node;
use crate::ids::{Offset, Partition, TopicId};

/// What was read about a partition before it is claimed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found<'a> {
    pub cursor: Option<Node<'a>>,
    pub done: Option<Node<'a>>,
    pub birth: Option<&'a Birth>,
}

/// A node's text, and the number of the transaction that wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    pub text: &'a [u8],
    pub mzxid: u64,
}

/// Why nothing can be delivered. There is no default to fall back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    UnreadableCursor(String),
    NotBorn,
    /// The end may have been read before what stands was written.
    PastEnd(Offset),
}

/// The pair that the claim writes, and where it came from.
pub fn decide(found: &Found<'_>, partition: Partition, log: &Log) -> Result<(Progress, Began), Refusal> {
    let stored = match found.cursor {
        Some(node) => with_cursor(node, found.done, log),
        None => at_birth(found, partition, log),
    }?;
    stored.within(log)
}

/// The cursor of a pair whose done set may count. `None`: there is no cursor.
pub fn pair(found: &Found<'_>) -> Result<Option<Progress>, Refusal> {
    let Some(node) = found.cursor else { return Ok(None) };
    let cursor = cursor::decode(node.text).map_err(Refusal::UnreadableCursor)?;
    let done = found.done.filter(|done| done.mzxid == node.mzxid);
    let counted = done.and_then(|done| node::decode(done.text, cursor).ok()).map(|(_, progress)| progress);
    Ok(Some(counted.unwrap_or(Progress { cursor, ..Progress::default() })))
}

/// What stands, before the log has been asked whether it still holds.
struct Stored {
    progress: Progress,
    /// Of the topic that the offsets are of; `None`: unknown, and taken to be the same.
    topic_id: Option<TopicId>,
    began: Began,
}

fn with_cursor(node: Node<'_>, done: Option<Node<'_>>, log: &Log) -> Result<Stored, Refusal> {
    let cursor = cursor::decode(node.text).map_err(Refusal::UnreadableCursor)?;
    // The header says of which topic the cursor is, also where a foreign write to the cursor has
    // taken its worth from the done set.
    let topic_id = done.and_then(|done| node::header(done.text).ok()).and_then(|header| header.topic_id);
    let counted = done.filter(|done| done.mzxid == node.mzxid && topic_id == log.topic_id);
    let progress = counted.and_then(|done| node::decode(done.text, cursor).ok()).map(|(_, progress)| progress);
    let progress = progress.unwrap_or(Progress { cursor, ..Progress::default() });
    Ok(Stored { progress, topic_id, began: Began::AtCursor })
}

/// With the birth's topic id even where a done node is left over: the start is the birth's, and
/// may be past the end of a topic that was created since.
fn at_birth(found: &Found<'_>, partition: Partition, log: &Log) -> Result<Stored, Refusal> {
    let birth = found.birth.ok_or(Refusal::NotBorn)?;
    let cursor = birth.start.get(partition.0 as usize).copied().unwrap_or(log.first);
    let progress = Progress { cursor, ..Progress::default() };
    Ok(Stored { progress, topic_id: birth.topic_id, began: Began::AtBirth })
}

impl Stored {
    fn within(self, log: &Log) -> Result<(Progress, Began), Refusal> {
        let Self { progress, topic_id, began } = self;
        let Progress { cursor, ref done, .. } = progress;
        if topic_id.is_some() && log.topic_id.is_some() && topic_id != log.topic_id {
            return Ok((Progress { cursor: log.first, ..Progress::default() }, Began::TopicRecreated { abandoned: cursor }));
        }
        // A run past the end would pass over records that are still to be written.
        let highest = done.runs().last().map_or(cursor, |run| Offset(run.end));
        if highest > log.end && log.past_end != Some(highest) {
            return Err(Refusal::PastEnd(highest));
        }
        if cursor < log.first {
            let skipped = log.first.0 - cursor.0 - done.count_in(cursor.0..log.first.0);
            return Ok((absorbed(log.first, &progress, log), Began::BelowFirst { skipped }));
        }
        if highest > log.end {
            return Ok((absorbed(cursor.min(log.end), &progress, log), Began::LogTruncated { from: highest }));
        }
        Ok((absorbed(cursor, &progress, log), began))
    }
}

/// The cursor moves over the runs that begin at it.
fn absorbed(cursor: Offset, Progress { done, tries, .. }: &Progress, log: &Log) -> Progress {
    let done = done.within(cursor.0..log.end.0.max(cursor.0));
    let at_cursor = done.runs().first().filter(|run| run.start == cursor.0);
    let cursor = at_cursor.map_or(cursor, |run| Offset(run.end));
    let tries = tries.within(cursor.0..log.end.0, &done);
    Progress { cursor, done: done.within(cursor.0..u64::MAX), tries }
}

#[cfg(test)]
mod tests;

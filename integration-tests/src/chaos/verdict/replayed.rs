//! What a replay promises: everything from its targets on is delivered again, whatever crashes. And what it may hide.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Instant;

use super::{Case, wanted};
use crate::chaos::faults::Done;
use crate::chaos::orders::Replay;
use crate::chaos::traffic::Sent;
use crate::chaos::world::CHURN;
use crate::ledger::{Acked, hash};
use crate::request::Seen;

/// Not delivered after a replay was asked for that reaches back over it. What a later one skips is not waited for.
pub(in crate::chaos) fn not_replayed<'a>(group: &str, seen: &[Seen], sent: &'a Sent, done: &Done) -> Vec<&'a Acked> {
    let successes = successes(seen);
    let replays: Vec<&Replay> = done.replays.iter().filter(|replay| replay.group == group).collect();
    let owed = |acked: &Acked| {
        replays.iter().enumerate().any(|(number, replay)| {
            let reached = replay.of(&acked.topic, acked.partition).is_some_and(|moved| moved.new <= acked.offset);
            let again = successes.get(&acked.digest).is_some_and(|span| *span.end() >= replay.asked);
            reached && !again && !skipped(&replays[number + 1..], acked)
        })
    };
    wanted(group, sent, done).filter(|acked| owed(acked)).collect()
}

/// Delivered for the first time after a replay, although the cursor had passed it before: only by chance not lost.
/// Offsets of a topic that is made again say nothing of that.
pub(super) fn saved<'a>(case: &Case, sent: &'a Sent) -> Vec<&'a Acked> {
    let successes = successes(case.seen);
    let replays: Vec<&Replay> = case.done.replays.iter().filter(|replay| replay.group == case.group).collect();
    let had_passed = |acked: &Acked| {
        let Some(first) = successes.get(&acked.digest).map(RangeInclusive::start) else { return false };
        replays.iter().enumerate().any(|(number, replay)| {
            let old = replay.of(&acked.topic, acked.partition).and_then(|moved| moved.old);
            old.is_some_and(|old| old > acked.offset) && *first > replay.answered && !skipped(&replays[..number], acked)
        })
    };
    wanted(case.group, sent, case.done).filter(|acked| acked.topic != CHURN && had_passed(acked)).collect()
}

/// Of each message from the first to the last.
fn successes(seen: &[Seen]) -> HashMap<[u8; 16], RangeInclusive<Instant>> {
    let mut successes: HashMap<_, RangeInclusive<Instant>> = HashMap::new();
    for success in seen.iter().filter(|seen| seen.succeeded()) {
        let span = successes.entry(hash(&success.body)).or_insert(success.at..=success.at);
        *span = success.at.min(*span.start())..=success.at.max(*span.end());
    }
    successes
}

/// One of these moved the cursor forwards over it, or may have.
fn skipped(replays: &[&Replay], acked: &Acked) -> bool {
    replays.iter().any(|replay| {
        let over = |old: u64, new: u64| (old..new).contains(&acked.offset);
        match replay.of(&acked.topic, acked.partition) {
            Some(moved) => moved.old.is_some_and(|old| over(old, moved.new)),
            None => replay.moved.is_none(),
        }
    })
}

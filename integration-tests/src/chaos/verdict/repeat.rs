//! Why a record was delivered again.

use std::time::Duration;

use super::Case;
use crate::chaos::faults::{Deed, Fault, Kind};
use crate::chaos::world::SESSION;
use crate::request::Seen;

/// From what ended an epoch, or cut an answer, to the next attempt: a takeover, and its wait in line.
const FELT_WITHIN: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::chaos) enum Cause {
    /// In the same epoch: its owner never saw the answer. A connection was reset, cut or too slow.
    AnswerLost,
    Replay,
    /// Another epoch, after this was done to the pusher that had the former.
    Takeover(Deed),
    /// Another epoch, although its pusher was not touched: an outage of ZooKeeper.
    OtherTakeover,
}

pub(super) fn cause(case: &Case, before: &Seen, again: &Seen) -> Cause {
    if before.epoch() == again.epoch() {
        return Cause::AnswerLost;
    }
    let between = || case.done.faults.iter().filter(|fault| fault.from <= again.at && fault.to + FELT_WITHIN >= before.at);
    if between().any(|fault| fault.deed == Deed::Replay && fault.whom == case.group) || was_replayed(case, before, again) {
        return Cause::Replay;
    }
    let owner = case.owners.of(case.group, before).map(|pusher| pusher.to_string());
    let its = |fault: &&Fault| fault.kind == Kind::Pusher && owner.as_deref().is_none_or(|owner| fault.whom == owner);
    // By themselves these end no epoch.
    let harmless = [Deed::Add, Deed::Reset, Deed::Slow, Deed::CutOffKafka];
    let touched = between().filter(its).rfind(|fault| !harmless.contains(&fault.deed));
    touched.map_or(Cause::OtherTakeover, |fault| Cause::Takeover(fault.deed))
}

/// It is owed to a replay, however long it waited in line for it: so far do they reach back.
fn was_replayed(case: &Case, before: &Seen, again: &Seen) -> bool {
    let mut replays = case.done.replays.iter().filter(|replay| replay.group == case.group);
    replays.any(|replay| {
        let moved = replay.of(again.topic(), again.partition());
        let reached = match replay.moved {
            Some(_) => moved.is_some_and(|moved| moved.new <= again.offset()),
            None => again.at < replay.asked + 5 * SESSION,
        };
        reached && before.at <= replay.answered && replay.asked <= again.at
    })
}

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
    let between = || case.faults.iter().filter(|fault| fault.from <= again.at && fault.to + FELT_WITHIN >= before.at);
    if between().any(|fault| fault.deed == Deed::Replay && fault.whom == case.group) || was_replayed(case, before, again) {
        return Cause::Replay;
    }
    let owner = case.owners.of(case.group, before).map(|pusher| pusher.to_string());
    let its = |fault: &&Fault| fault.kind == Kind::Pusher && owner.as_deref().is_none_or(|owner| fault.whom == owner);
    let touched = between().filter(its).rfind(|fault| !matches!(fault.deed, Deed::Add | Deed::Reset));
    touched.map_or(Cause::OtherTakeover, |fault| Cause::Takeover(fault.deed))
}

/// A replay whose records had to wait for longer: it reaches back so far.
fn was_replayed(case: &Case, before: &Seen, again: &Seen) -> bool {
    let replays = case.faults.iter().filter(|fault| fault.deed == Deed::Replay && fault.whom == case.group);
    replays.into_iter().any(|replay| before.at < replay.from && replay.from < again.at && again.at < replay.from + 5 * SESSION)
}

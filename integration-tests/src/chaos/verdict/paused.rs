//! What a pause promises: from reading it on, an owner begins no attempt.

use std::time::Duration;

use super::Case;
use super::overlap::AFTER_A_THAW;
use crate::chaos::faults::{Deed, Fault, Kind};
use crate::chaos::orders::Pause;
use crate::request::Seen;

/// Owners are told at once by a watch. One whose watch is lost looks by itself every ten seconds, and one that cannot
/// look has no lease after four; a moment more for the look, and for an attempt to arrive.
pub(in crate::chaos) const READ_WITHIN: Duration = Duration::from_secs(12);

/// Those that began too late, and for each pause that was longer than that how long its group had attempts.
pub(super) fn attempts(case: &Case) -> (Vec<String>, Vec<Duration>) {
    let long = |pause: &&Pause| pause.group == case.group && pause.resumed > pause.answered + READ_WITHIN;
    let (mut too_late, mut obeyed) = (Vec::new(), Vec::new());
    for pause in case.done.pauses.iter().filter(long) {
        let within = |seen: &&Seen| seen.at > pause.answered && seen.at < pause.resumed && !case.evidence.came_late(seen);
        let after = |seen: &Seen| seen.at.duration_since(pause.answered);
        let attempts: Vec<&Seen> = case.seen.iter().filter(within).filter(|seen| !was_frozen(case, seen)).collect();
        obeyed.push(attempts.iter().map(|seen| after(seen)).max().unwrap_or_default());
        too_late.extend(attempts.iter().filter(|seen| after(seen) > READ_WITHIN).map(|seen| {
            let owner = case.owners.of(case.group, seen).map_or_else(|| "?".to_owned(), |pusher| pusher.to_string());
            format!("{:?} in epoch {} by pusher {owner}, {:.1} s after the answer", seen.place(), seen.epoch(), after(seen).as_secs_f64())
        }));
    }
    (too_late, obeyed)
}

/// What it had tested before it stood still, it sends when it thaws.
fn was_frozen(case: &Case, seen: &Seen) -> bool {
    let owner = case.owners.of(case.group, seen).map(|pusher| pusher.to_string());
    let its = |fault: &&Fault| fault.kind == Kind::Pusher && fault.deed == Deed::Freeze && owner.as_ref() == Some(&fault.whom);
    case.done.faults.iter().filter(its).any(|fault| (fault.from..=fault.to + AFTER_A_THAW).contains(&seen.at))
}

//! Attempts of a key at the same time.

use std::collections::HashMap;
use std::time::Duration;

use super::Case;
use crate::chaos::faults::{Deed, Fault, Kind};
use crate::request::Seen;

/// What a process that was frozen had tested before sends it right after it thaws.
pub(super) const AFTER_A_THAW: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(in crate::chaos) struct Overlaps {
    /// By owners that were both alive: how each came about.
    pub(in crate::chaos) live: Vec<String>,
    /// Of an owner that was frozen in between.
    pub(in crate::chaos) frozen: usize,
    /// No overlap: the former's sender had closed or lost its connection before the latter came, and the receiver had not noticed.
    pub(in crate::chaos) given_up: usize,
    /// No overlap: it came after its sender had gone, held back by the network.
    pub(in crate::chaos) came_late: usize,
}

pub(super) fn find(case: &Case) -> Overlaps {
    let mut overlaps = Overlaps::default();
    let mut by_key: HashMap<(&str, u32, &str), Vec<&Seen>> = HashMap::new();
    let mut in_order: Vec<&Seen> = case.seen.iter().collect();
    in_order.sort_by_key(|seen| seen.at);
    for latter in in_order {
        let Some(key) = latter.key() else { continue };
        let open = by_key.entry((latter.topic(), latter.partition(), key)).or_default();
        open.retain(|former| former.ended().is_none_or(|ended| latter.at < ended));
        for former in open.iter() {
            if case.evidence.came_late(latter) || case.evidence.came_late(former) {
                overlaps.came_late += 1;
            } else if case.evidence.given_up_before(former, latter) {
                overlaps.given_up += 1;
            } else if case.done.faults.iter().any(|fault| was_frozen(case, fault, former, latter)) {
                overlaps.frozen += 1;
            } else {
                overlaps.live.push(describe(case, former, latter));
            }
        }
        open.push(latter);
    }
    overlaps
}

/// The one of the older epoch was of a pusher that was frozen while or before the other came.
fn was_frozen(case: &Case, fault: &Fault, former: &Seen, latter: &Seen) -> bool {
    let (older, newer) = if former.epoch() < latter.epoch() { (former, latter) } else { (latter, former) };
    let of_it = case.owners.of(case.group, older).is_some_and(|pusher| fault.whom == pusher.to_string());
    let frozen = fault.kind == Kind::Pusher && fault.deed == Deed::Freeze && of_it;
    frozen && older.epoch() != newer.epoch() && fault.from <= older.at.max(newer.at) && older.at <= fault.to + AFTER_A_THAW
}

fn describe(case: &Case, former: &Seen, latter: &Seen) -> String {
    let lasted = former.ended().map(|ended| ended.duration_since(latter.at));
    let how = match (former.status, former.broken_off) {
        (Some(status), _) => format!("answered {status}"),
        (None, Some(_)) => "broken off".to_owned(),
        (None, None) => "never ended".to_owned(),
    };
    let one = |seen: &Seen| {
        let owner = case.owners.of(case.group, seen).map_or_else(|| "?".to_owned(), |pusher| pusher.to_string());
        format!("attempt {} of offset {} in epoch {} by pusher {owner}", seen.attempt(), seen.offset(), seen.epoch())
    };
    format!("{}/{}: {} was {how} {lasted:?} after {} had come", former.topic(), former.partition(), one(former), one(latter))
}

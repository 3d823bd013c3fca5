//! How long partitions of a pusher that was killed had no other owner.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Case;
use crate::chaos::faults::{Deed, Fault, Kind};
use crate::chaos::world::CHURN;

type Epochs = BTreeMap<u64, (Instant, Option<usize>)>;

/// From each `kill -9` of a pusher to the first attempt of the next owner of the last of its partitions; of this group,
/// and of partitions for which nothing else that they wait for was broken meanwhile.
pub(in crate::chaos) fn times(case: &Case) -> Vec<Duration> {
    let mut first: BTreeMap<(&str, u32), Epochs> = BTreeMap::new();
    for request in case.seen.iter().filter(|seen| seen.topic() != CHURN) {
        let epochs = first.entry((request.topic(), request.partition())).or_default();
        epochs.entry(request.epoch()).or_insert_with(|| (request.at, case.owners.of(case.group, request)));
    }
    let kills = case.done.faults.iter().filter(|fault| fault.kind == Kind::Pusher && fault.deed == Deed::Kill);
    kills.filter_map(|kill| first.values().filter_map(|epochs| taken_over(case, kill, epochs)).max()).collect()
}

fn taken_over(case: &Case, kill: &Fault, epochs: &Epochs) -> Option<Duration> {
    let (_, (_, owner)) = epochs.iter().rfind(|(_, (began, _))| *began < kill.from)?;
    let next = epochs.values().map(|(began, _)| *began).find(|began| *began > kill.from)?;
    let mut others = case.done.faults.iter().filter(|other| other.from != kill.from && other.from < next && other.to > kill.from);
    let was_its = owner.is_some_and(|owner| kill.whom == owner.to_string());
    (was_its && !others.any(|other| is_waited_for(case, other))).then(|| next.duration_since(kill.from))
}

fn is_waited_for(case: &Case, fault: &Fault) -> bool {
    match fault.kind {
        Kind::Pusher => true,
        Kind::Receiver | Kind::Operator => fault.whom == case.group,
        Kind::ZooKeeper => fault.deed != Deed::Reset,
        Kind::Broker => !matches!(fault.deed, Deed::Reset | Deed::Slow),
        Kind::Proxy => false,
    }
}

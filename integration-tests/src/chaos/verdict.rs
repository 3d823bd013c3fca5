//! The ledger's verdict on one group.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;

use self::overlap::Overlaps;
pub(super) use self::paused::READ_WITHIN;
pub(super) use self::repeat::Cause;
pub(super) use self::replayed::not_replayed;
use super::faults::{Deed, Done};
use super::owners::Owners;
use super::senders::Evidence;
use super::traffic::Sent;
use super::world::{CHURN, topics_of};
use crate::ledger::Acked;
use crate::request::Seen;

mod overlap;
mod paused;
mod progress;
mod repeat;
mod replayed;
pub(super) mod takeover;
#[cfg(test)]
mod tests;

/// What there is to judge by.
pub(super) struct Case<'a> {
    pub(super) group: &'static str,
    /// In the order of arrival.
    pub(super) seen: &'a [Seen],
    pub(super) evidence: Evidence,
    pub(super) owners: &'a Owners,
    pub(super) done: &'a Done,
}

#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Acknowledged, and never delivered or only by a replay, although the cursor had passed it.
    pub(super) lost: Vec<String>,
    /// Acknowledged and not delivered yet: the cursor still waits for it.
    pub(super) late: Vec<String>,
    pub(super) delivered: usize,
    pub(super) reordered: Vec<String>,
    pub(super) overlaps: Overlaps,
    pub(super) repeats: BTreeMap<Cause, usize>,
    /// Acknowledged, moved back over by a replay, and not delivered after it.
    pub(super) not_replayed: Vec<String>,
    /// Attempts of a group that was paused, by owners that must have known.
    pub(super) while_paused: Vec<String>,
    /// From the answer to each pause to the last attempt before its end.
    pub(super) obeyed: Vec<Duration>,
    /// Of each partition the longest time without a first success, while something waited for one.
    pub(super) pauses: BTreeMap<(String, u32), Duration>,
}

/// What was acknowledged, must be delivered to this group, and is not. Of a topic that was deleted, only what came
/// after that must be.
pub(super) fn missing<'a>(group: &str, seen: &[Seen], sent: &'a Sent, done: &Done) -> Vec<&'a Acked> {
    let delivered: HashSet<[u8; 16]> = seen.iter().filter(|seen| seen.succeeded()).map(|seen| crate::ledger::hash(&seen.body)).collect();
    wanted(group, sent, done).filter(|acked| !delivered.contains(&acked.digest)).collect()
}

fn wanted<'a>(group: &str, sent: &'a Sent, done: &Done) -> impl Iterator<Item = &'a Acked> {
    let topics = topics_of(group);
    let recreated = done.faults.iter().filter(|fault| fault.deed == Deed::RecreateTopic).map(|fault| fault.to).max();
    let wanted = sent.acked.iter().filter(move |(acked, at)| {
        let excused = acked.topic == CHURN && recreated.is_some_and(|recreated| *at <= recreated);
        topics.contains(&acked.topic.as_str()) && !excused
    });
    wanted.map(|(acked, _)| acked)
}

/// `passed` tells whether the group's cursor has passed a message.
pub(super) fn judge(case: &Case, sent: &Sent, passed: impl Fn(&Acked) -> bool) -> Verdict {
    let name = |acked: &Acked| format!("{}/{} offset {}", acked.topic, acked.partition, acked.offset);
    let Case { group, seen, done, .. } = *case;
    let (lost, late): (Vec<&Acked>, Vec<&Acked>) = missing(group, seen, sent, done).into_iter().partition(|a| passed(a));
    let saved = replayed::saved(case, sent).into_iter().map(|acked| format!("{}: only a replay brought it", name(acked)));
    let (while_paused, obeyed) = paused::attempts(case);
    let mut verdict = Verdict {
        lost: lost.into_iter().map(name).chain(saved).collect(),
        late: late.into_iter().map(name).collect(),
        not_replayed: not_replayed(group, seen, sent, done).into_iter().map(name).collect(),
        while_paused,
        obeyed,
        overlaps: overlap::find(case),
        pauses: progress::pauses(case, sent),
        ..Verdict::default()
    };
    successes(case, sent, &mut verdict);
    verdict
}

/// First ones are counted and must be in order; the others are repeats.
fn successes(case: &Case, sent: &Sent, verdict: &mut Verdict) {
    let acked: HashSet<[u8; 16]> = sent.acked.iter().map(|(acked, _)| acked.digest).collect();
    let mut last: HashMap<&Bytes, &Seen> = HashMap::new();
    let mut highest: HashMap<Line, u64> = HashMap::new();
    let mut by_end: Vec<&Seen> = case.seen.iter().filter(|seen| seen.succeeded()).collect();
    by_end.sort_by_key(|seen| seen.ended());
    for request in by_end {
        if let Some(before) = last.insert(&request.body, request) {
            *verdict.repeats.entry(repeat::cause(case, before, request)).or_default() += 1;
            continue;
        }
        verdict.delivered += 1;
        let Some((line, number)) = place_in_line(request, &acked) else { continue };
        let highest = highest.entry(line).or_default();
        if number < *highest {
            verdict.reordered.push(format!("{:?} of key {:?}", request.place(), request.key()));
        }
        *highest = number.max(*highest);
    }
}

/// Whose first successes come in order: topic, partition, key and, where offsets begin anew, the producer.
type Line<'a> = (&'a str, u32, &'a str, Option<&'a str>);

/// By offset; in a topic that is made again by the number that its producer gave it, if it was acknowledged: a producer
/// waits for that before its next one.
fn place_in_line<'a>(seen: &'a Seen, acked: &HashSet<[u8; 16]>) -> Option<(Line<'a>, u64)> {
    let (topic, partition, key) = (seen.topic(), seen.partition(), seen.key().unwrap_or_default());
    if topic != CHURN {
        return Some(((topic, partition, key, None), seen.offset()));
    }
    let (producer, number) = seen.text().split_once('.')?;
    let number = number.parse().ok()?;
    acked.contains(&crate::ledger::hash(&seen.body)).then_some(((topic, partition, key, Some(producer)), number))
}

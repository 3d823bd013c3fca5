//! The ledger's verdict on one group.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::faults::{Deed, Fault, Kind};
use super::traffic::Sent;
use super::world::{CHURN, Callback, topics_of};
use crate::ledger::{Acked, hash};
use crate::request::Seen;

/// Longer than a takeover may take.
const WATCHED: Duration = Duration::from_secs(12);

const NOTICED_WITHIN: Duration = Duration::from_millis(300);

type Place = (String, u32, u64);

/// Why a record was delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// Its owner never saw the answer: a connection was reset, cut or too slow.
    AnswerLost,
    Replay,
    /// Another owner, after this was done to a pusher.
    Takeover(Deed),
    /// Another owner, although no pusher was touched: an outage of ZooKeeper.
    OtherTakeover,
}

#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Acknowledged and never delivered.
    pub(super) lost: Vec<String>,
    pub(super) delivered: usize,
    pub(super) reordered: Vec<Place>,
    /// Attempts of a key at the same time, by owners that were both alive.
    pub(super) overlapping: Vec<String>,
    /// The same, of an owner that was frozen in between.
    pub(super) overlapping_frozen: usize,
    /// The same, of requests that the network had held back after their sender had given them up.
    pub(super) overlapping_held: usize,
    pub(super) repeats: BTreeMap<Cause, usize>,
    /// The longest time between two first successes of a partition, with the partition.
    pub(super) longest_pause: (Duration, String),
}

/// What was acknowledged, must be delivered to this group, and is not yet. Of a topic that was deleted, only what
/// came after that must be.
pub(super) fn missing(callback: &Callback, sent: &Sent, faults: &[Fault]) -> Vec<String> {
    let topics = topics_of(callback.group);
    let recreated = faults.iter().filter(|fault| fault.deed == Deed::RecreateTopic).map(|fault| fault.to).max();
    let delivered: HashSet<[u8; 16]> = callback.seen().iter().filter(|seen| seen.succeeded()).map(|seen| hash(&seen.body)).collect();
    let excused = |at: &Instant, topic: &str| topic == CHURN && recreated.is_some_and(|recreated| *at <= recreated);
    let wanted = sent.acked.iter().filter(|(acked, at)| topics.contains(&acked.topic.as_str()) && !excused(at, &acked.topic));
    wanted.filter(|(acked, _)| !delivered.contains(&acked.digest)).map(|(acked, _)| name(acked)).collect()
}

fn name(acked: &Acked) -> String {
    format!("{}/{} offset {}", acked.topic, acked.partition, acked.offset)
}

pub(super) fn judge(callback: &Callback, sent: &Sent, faults: &[Fault]) -> Verdict {
    let seen = callback.seen();
    let mut verdict = Verdict { lost: missing(callback, sent, faults), ..Verdict::default() };
    // Offsets of a topic that is made again begin anew, so its order is not judged.
    let judged: Vec<&Seen> = seen.iter().filter(|seen| seen.topic() != CHURN).collect();
    successes(&judged, faults, &mut verdict);
    overlaps(&judged, faults, &mut verdict);
    verdict
}

fn successes(seen: &[&Seen], faults: &[Fault], verdict: &mut Verdict) {
    let mut last: HashMap<Place, &Seen> = HashMap::new();
    let mut highest: HashMap<(&str, u32, &str), u64> = HashMap::new();
    let mut progress: HashMap<(&str, u32), Instant> = HashMap::new();
    let mut by_end: Vec<&&Seen> = seen.iter().filter(|seen| seen.succeeded()).collect();
    by_end.sort_by_key(|seen| seen.ended());
    for request in by_end {
        if let Some(before) = last.insert(request.place(), request) {
            *verdict.repeats.entry(cause(before, request, faults)).or_default() += 1;
            continue;
        }
        verdict.delivered += 1;
        let key = (request.topic(), request.partition(), request.key().unwrap_or_default());
        let highest = highest.entry(key).or_default();
        if request.offset() < *highest {
            verdict.reordered.push(request.place());
        }
        *highest = request.offset().max(*highest);
        if let Some(before) = progress.insert((request.topic(), request.partition()), request.at) {
            let pause = request.at.saturating_duration_since(before);
            if pause > verdict.longest_pause.0 {
                verdict.longest_pause = (pause, format!("{}/{}", request.topic(), request.partition()));
            }
        }
    }
}

fn cause(before: &Seen, again: &Seen, faults: &[Fault]) -> Cause {
    if before.epoch() == again.epoch() {
        return Cause::AnswerLost;
    }
    let between: Vec<&Fault> =
        faults.iter().filter(|fault| fault.from <= again.at && fault.to + Duration::from_secs(15) >= before.at).collect();
    let replayed = between.iter().any(|fault| fault.deed == Deed::Replay);
    let touched = between.iter().rev().find(|fault| fault.kind == Kind::Pusher && fault.deed != Deed::Add);
    match touched {
        _ if replayed => Cause::Replay,
        Some(fault) => Cause::Takeover(fault.deed),
        None => Cause::OtherTakeover,
    }
}

fn overlaps(seen: &[&Seen], faults: &[Fault], verdict: &mut Verdict) {
    let mut by_key: HashMap<(&str, u32, &str), Vec<&Seen>> = HashMap::new();
    for request in seen {
        if let Some(key) = request.key() {
            by_key.entry((request.topic(), request.partition(), key)).or_default().push(request);
        }
    }
    for attempts in by_key.values_mut() {
        attempts.sort_by_key(|seen| seen.at);
        for pair in attempts.windows(2) {
            let (former, latter) = (pair[0], pair[1]);
            let Some(ended) = over(former).filter(|ended| latter.at < *ended) else { continue };
            let frozen =
                |fault: &&Fault| fault.deed == Deed::Freeze && fault.kind == Kind::Pusher && fault.from <= ended && former.at <= fault.to;
            if former.epoch() != latter.epoch() && faults.iter().any(|fault| frozen(&fault)) {
                verdict.overlapping_frozen += 1;
            } else if faults.iter().any(|fault| held_back(fault, former)) {
                verdict.overlapping_held += 1;
            } else {
                verdict.overlapping.push(overlap(former, latter));
            }
        }
    }
}

fn overlap(former: &Seen, latter: &Seen) -> String {
    let late = former.ended().map_or(Duration::ZERO, |ended| ended.duration_since(latter.at));
    let how = former.status.map_or_else(|| "broken off".to_owned(), |status| format!("answered {status}"));
    format!(
        "{:?}: attempt {} of epoch {} was {how} {late:?} after attempt {} of epoch {} of offset {} had come",
        former.place(),
        former.attempt(),
        former.epoch(),
        latter.attempt(),
        latter.epoch(),
        latter.offset()
    )
}

/// When an attempt was over for its sender at the latest. One that was broken off was so before the receiver noticed,
/// which on a busy machine and behind a relay is not at once.
fn over(seen: &Seen) -> Option<Instant> {
    seen.answered.or_else(|| seen.broken_off.and_then(|noticed| noticed.checked_sub(NOTICED_WITHIN)))
}

/// The way to a receiver was slow or held when it arrived, or a moment before.
fn held_back(fault: &Fault, arrived: &Seen) -> bool {
    let on_the_way = fault.kind == Kind::Receiver && matches!(fault.deed, Deed::CutOff | Deed::Slow);
    on_the_way && fault.from <= arrived.at && arrived.at <= fault.to + Duration::from_secs(1)
}

/// From each `kill -9` of a pusher until the last of its partitions had an attempt by its next owner; only of those in
/// whose time no other pusher and no ZooKeeper server was broken.
pub(super) fn takeovers(seen: &[Seen], faults: &[Fault]) -> Vec<Duration> {
    let mut first: BTreeMap<(&str, u32), BTreeMap<u64, Instant>> = BTreeMap::new();
    for request in seen.iter().filter(|seen| seen.topic() != CHURN) {
        let epochs = first.entry((request.topic(), request.partition())).or_default();
        let began = epochs.entry(request.epoch()).or_insert(request.at);
        *began = request.at.min(*began);
    }
    let began: Vec<Instant> = first.values().flat_map(|epochs| epochs.values().skip(1)).copied().collect();
    let kills = faults.iter().filter(|fault| fault.kind == Kind::Pusher && fault.deed == Deed::Kill && alone(fault, faults));
    let longest = |kill: &Fault| began.iter().filter(|began| **began > kill.from && **began < kill.from + WATCHED).max().copied();
    kills.filter_map(|kill| longest(kill).map(|began| began.duration_since(kill.from))).collect()
}

fn alone(kill: &Fault, faults: &[Fault]) -> bool {
    let near = |other: &&Fault| other.from < kill.from + WATCHED && other.to + WATCHED > kill.from;
    let moving =
        |other: &&Fault| matches!(other.kind, Kind::Pusher | Kind::ZooKeeper) || matches!(other.deed, Deed::GrowTopic | Deed::Replay);
    faults.iter().filter(near).filter(moving).count() == 1
}

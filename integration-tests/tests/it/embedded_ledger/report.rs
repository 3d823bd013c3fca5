//! The verdict on every group, and the table at the end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

use integration_tests::ledger::{Acked, Place, Verdict, judge};
use integration_tests::request::Seen;

use super::operator::Replay;
use super::plan::Tail;
use super::receivers::{Callback, Callbacks};
use super::traffic::Sent;
use super::world::{Kill, World};
use super::{COMMIT_INTERVAL, TOPIC};

/// What was done when a commit began is stored when it ends, which takes syncs of a busy disk.
const SLOWEST_COMMIT: Duration = Duration::from_millis(900);
/// A receiver on a busy machine may read and answer a request whose sender was killed.
const ANSWERED_LATE: Duration = Duration::from_millis(300);
/// Its owner takes a replay up a moment after it was answered, and lets end what is in flight.
const OWNER_READS: Duration = Duration::from_millis(500);

/// What a user must not see, group by group.
#[derive(Debug, Default)]
struct Kept {
    verdict: Verdict,
    by_replay: usize,
    by_kill: usize,
    /// Neither replayed nor near a kill.
    unexplained: Vec<Place>,
    /// Replayed, and not delivered again.
    not_replayed: Vec<Place>,
    while_paused: Vec<Place>,
}

pub(super) struct Report<'a> {
    world: &'a World,
    sent: &'a Sent,
    groups: Vec<(&'static str, Kept)>,
}

/// Acknowledged, and not delivered yet.
pub(super) fn missing(callback: &Callback, sent: &Sent) -> Vec<Place> {
    let delivered: HashSet<Place> = callback.seen().iter().filter(|seen| seen.succeeded()).map(Seen::place).collect();
    sent.acked.iter().map(|(acked, _)| place(acked)).filter(|place| !delivered.contains(place)).collect()
}

fn place(acked: &Acked) -> Place {
    (acked.topic.clone(), acked.partition, acked.offset)
}

impl<'a> Report<'a> {
    pub(super) fn new(world: &'a World, sent: &'a Sent, callbacks: &Callbacks) -> Self {
        let groups = callbacks.all.iter().map(|callback| (callback.group, Kept::of(callback, sent, world))).collect();
        Self { world, sent, groups }
    }

    #[track_caller]
    pub(super) fn assert_kept(&self) {
        for (group, kept) in &self.groups {
            kept.verdict.assert_nothing_lost_or_reordered();
            for (what, places) in [
                ("repeated beyond their bound", &kept.unexplained),
                ("replayed and not delivered again", &kept.not_replayed),
                ("attempted while paused", &kept.while_paused),
            ] {
                assert!(places.is_empty(), "THE GUARANTEE IS BROKEN: group {group}, {} {what}, such as {:?}", places.len(), places.first());
            }
        }
    }
}

impl Kept {
    fn of(callback: &Callback, sent: &Sent, world: &World) -> Self {
        let (seen, group) = (callback.seen(), callback.group);
        let acked: Vec<Acked> = sent.acked.iter().map(|(acked, _)| acked.clone()).collect();
        let replays: Vec<&Replay> = world.operator.replays.iter().filter(|replay| replay.group == group).collect();
        let pauses = world.operator.pauses.iter().filter(|pause| pause.group == group);
        let in_pauses = pauses.flat_map(|pause| seen.iter().filter(|seen| seen.at > pause.from + ANSWERED_LATE && seen.at < pause.to));
        let mut kept = Self { verdict: judge(&acked, &seen), while_paused: in_pauses.map(Seen::place).collect(), ..Self::default() };
        kept.repeats(&seen, &replays, &world.kills);
        kept.not_replayed = replays.iter().flat_map(|replay| not_replayed(replay, &seen, sent)).collect();
        kept
    }

    /// Each repeat was asked for, or was in flight or not stored yet when the process was killed.
    fn repeats(&mut self, seen: &[Seen], replays: &[&Replay], kills: &[Kill]) {
        let mut last: HashMap<Place, Instant> = HashMap::new();
        for request in seen.iter().filter(|seen| seen.succeeded()) {
            let Some(before) = last.insert(request.place(), request.answered.expect("a success was answered")) else { continue };
            let killed = |kill: &Kill| {
                let stored_within = COMMIT_INTERVAL + SLOWEST_COMMIT + 4 * kill.sync_delay;
                before <= kill.at + ANSWERED_LATE && kill.at <= request.at && kill.at <= before + stored_within
            };
            let replayed = |replay: &Replay| {
                let target = replay.targets.get(&request.partition());
                target.is_some_and(|target| *target <= request.offset())
                    && before <= replay.answered.map_or(request.at, |answered| answered + OWNER_READS)
                    && replay.asked <= request.at
            };
            if kills.iter().any(killed) {
                self.by_kill += 1;
            } else if replays.iter().any(|replay| replayed(replay)) {
                self.by_replay += 1;
            } else {
                self.unexplained.push(request.place());
            }
        }
    }
}

/// Acknowledged before an answered replay, at its target or above, and not delivered after it was asked for.
fn not_replayed(replay: &Replay, seen: &[Seen], sent: &Sent) -> Vec<Place> {
    let again: HashSet<Place> = seen.iter().filter(|seen| seen.succeeded() && seen.at >= replay.asked).map(Seen::place).collect();
    let asked_for = |acked: &Acked| replay.answered.is_some() && replay.targets.get(&acked.partition).is_some_and(|to| *to <= acked.offset);
    sent.acked.iter().map(|(acked, _)| acked).filter(|acked| asked_for(acked)).map(place).filter(|place| !again.contains(place)).collect()
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let World { seed, kills, operator, full_disks, .. } = self.world;
        let Sent { acked, disk_full, refused, unknown } = self.sent;
        let mut tails: BTreeMap<String, (usize, usize, u64)> = BTreeMap::new();
        for kill in kills {
            let (count, torn, bytes) = tails.entry(format!("{:?}", kill.tail)).or_default();
            *count += 1;
            *torn += usize::from(kill.torn_bytes > 0);
            *bytes += kill.torn_bytes;
        }
        writeln!(f, "topic {TOPIC}, seed {seed}, {} kills", kills.len())?;
        for (tail, (count, torn, bytes)) in tails.iter().filter(|(tail, _)| **tail != format!("{:?}", Tail::Kept)) {
            writeln!(f, "  power cuts, tail {tail:<9} {count:>4}, {torn} of them in a write ({bytes} bytes not synced)")?;
        }
        writeln!(f, "  on a full disk {full_disks}; replays {}, pauses {}", operator.replays.len(), operator.pauses.len())?;
        writeln!(f, "messages acknowledged {}, refused {refused} ({disk_full} by a full disk), without an answer {unknown}", acked.len())?;
        let away = kills.iter().map(|kill| kill.away).max().unwrap_or_default();
        writeln!(f, "ready again after {away:?} at the latest")?;
        for (group, Kept { verdict, by_replay, by_kill, unexplained, not_replayed, while_paused }) in &self.groups {
            let Verdict { lost, altered, reordered, overlapping, delivered, .. } = verdict;
            writeln!(
                f,
                "{group:<9} delivered {delivered}, lost {}, altered {}, reordered {}, overlapping {}; again by kills {by_kill}, by replays \
                 {by_replay}, beyond their bound {}; not replayed {}, while paused {}",
                lost.len(),
                altered.len(),
                reordered.len(),
                overlapping.len(),
                unexplained.len(),
                not_replayed.len(),
                while_paused.len()
            )?;
        }
        Ok(())
    }
}

//! What came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Chaos;
use super::faults::{Deed, Done, Journal};
use super::traffic::Sent;
use super::verdict::{Case, Cause, Verdict, judge, takeover};
use super::world::{Callback, World};

mod bounds;
mod table;

pub struct Report {
    chaos: Chaos,
    done: Done,
    acked: usize,
    refused: usize,
    unknown: usize,
    groups: Vec<(&'static str, Verdict)>,
    takeovers: Vec<Duration>,
    /// What lay in the topics of the group in the time that each replay reached back, all together.
    replayed: usize,
    /// How long the rest took; `None`: something was still missing when time was up.
    settled: Option<Duration>,
}

impl Report {
    pub(super) fn new(chaos: Chaos, journal: &Journal, sent: &Sent, world: &World, settled: Option<Duration>) -> Self {
        let mut done = journal.done();
        done.faults.sort_by_key(|fault| fault.from);
        let owners = world.owners();
        let (mut groups, mut takeovers) = (Vec::new(), Vec::new());
        for Callback { group, receiver, senders, .. } in &world.callbacks {
            let passed = |topic: &str, partition, offset| world.cursor(group, topic, partition).is_some_and(|cursor| cursor > offset);
            receiver.look(|seen| {
                let case = Case { group, seen, evidence: senders.evidence(), owners: &owners, done: &done };
                groups.push((*group, judge(&case, sent, |acked| passed(&acked.topic, acked.partition, acked.offset))));
                takeovers.extend(takeover::times(&case));
            });
        }
        let (acked, refused, unknown) = (sent.acked.len(), sent.refused, sent.unknown);
        let replays = done.faults.iter().filter(|fault| fault.deed == Deed::Replay);
        let replayed = replays.map(|replay| bounds::within_reach(replay, sent)).sum();
        Self { chaos, done, acked, refused, unknown, groups, takeovers, replayed, settled }
    }

    pub fn faults(&self) -> usize {
        self.done.faults.len()
    }

    pub fn acked(&self) -> usize {
        self.acked
    }

    pub fn lost(&self) -> usize {
        self.sum(|verdict| verdict.lost.len())
    }

    /// Not lost, and not delivered although there was time.
    pub fn late(&self) -> usize {
        self.sum(|verdict| verdict.late.len())
    }

    pub fn reordered(&self) -> usize {
        self.sum(|verdict| verdict.reordered.len())
    }

    /// Of a key, by owners that were alive.
    pub fn overlapping(&self) -> usize {
        self.sum(|verdict| verdict.overlaps.live.len())
    }

    pub fn repeats(&self) -> usize {
        self.sum(|verdict| verdict.repeats.values().sum())
    }

    /// Moved back over by a replay, and not delivered again.
    pub fn not_replayed(&self) -> usize {
        self.sum(|verdict| verdict.not_replayed.len())
    }

    /// Attempts of a group that was paused.
    pub fn while_paused(&self) -> usize {
        self.sum(|verdict| verdict.while_paused.len())
    }

    /// Nothing acknowledged is lost, no key is reordered, and what operators were told is done is done.
    pub fn keeps_the_guarantee(&self) -> bool {
        self.lost() + self.reordered() + self.overlapping() + self.not_replayed() + self.while_paused() == 0
    }

    /// More repeats of one cause than may be. To which cause one belongs is a guess where faults overlap.
    pub fn repeats_beyond_bound(&self) -> Vec<String> {
        let beyond = self.repeats_by_cause().into_iter().filter(|(cause, repeats)| *repeats > self.bound(*cause));
        beyond.map(|(cause, repeats)| format!("{repeats} by {cause}")).collect()
    }

    fn repeats_by_cause(&self) -> BTreeMap<Cause, usize> {
        let mut all = BTreeMap::new();
        for (cause, repeats) in self.groups.iter().flat_map(|(_, verdict)| &verdict.repeats) {
            *all.entry(*cause).or_default() += repeats;
        }
        all
    }

    fn sum(&self, count: impl Fn(&Verdict) -> usize) -> usize {
        self.groups.iter().map(|(_, verdict)| count(verdict)).sum()
    }
}

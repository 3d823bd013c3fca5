//! What came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Chaos;
use super::faults::{Deed, Fault, Journal, Kind};
use super::traffic::Sent;
use super::verdict::{Case, Cause, Verdict, judge, takeover};
use super::world::{COMMIT_INTERVAL, Callback, GROUPS, PUSHERS, SESSION, WORKERS, World};

mod table;

pub struct Report {
    chaos: Chaos,
    faults: Vec<Fault>,
    acked: usize,
    refused: usize,
    unknown: usize,
    groups: Vec<(&'static str, Verdict)>,
    takeovers: Vec<Duration>,
    /// How long the rest took; `None`: something was still missing when time was up.
    settled: Option<Duration>,
}

impl Report {
    pub(super) fn new(chaos: Chaos, journal: &Journal, sent: &Sent, world: &World, settled: Option<Duration>) -> Self {
        let mut faults = journal.faults();
        faults.sort_by_key(|fault| fault.from);
        let owners = world.owners();
        let (mut groups, mut takeovers) = (Vec::new(), Vec::new());
        for Callback { group, receiver, senders, .. } in &world.callbacks {
            let passed = |topic: &str, partition, offset| world.cursor(group, topic, partition).is_some_and(|cursor| cursor > offset);
            receiver.look(|seen| {
                let case = Case { group, seen, evidence: senders.evidence(), owners: &owners, faults: &faults };
                groups.push((*group, judge(&case, sent, |acked| passed(&acked.topic, acked.partition, acked.offset))));
                takeovers.extend(takeover::times(&case));
            });
        }
        let (acked, refused, unknown) = (sent.acked.len(), sent.refused, sent.unknown);
        Self { chaos, faults, acked, refused, unknown, groups, takeovers, settled }
    }

    pub fn faults(&self) -> usize {
        self.faults.len()
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

    /// Nothing acknowledged is lost, no key is reordered.
    pub fn keeps_the_guarantee(&self) -> bool {
        self.lost() + self.reordered() + self.overlapping() == 0
    }

    /// More repeats of one cause than may be. To which cause one belongs is a guess where faults overlap.
    pub fn repeats_beyond_bound(&self) -> Vec<String> {
        let beyond =
            self.repeats_by_cause().into_iter().filter(|(cause, repeats)| self.bound(*cause).is_some_and(|bound| *repeats > bound));
        beyond.map(|(cause, repeats)| format!("{repeats} by {cause}")).collect()
    }

    /// How many may be delivered again because of `cause`; `None`: as many as were replayed.
    fn bound(&self, cause: Cause) -> Option<usize> {
        let count = |kind: Kind, deeds: &[Deed]| self.faults.iter().filter(|f| f.kind == kind && deeds.contains(&f.deed)).count();
        let of_one = WORKERS * GROUPS.len();
        let delivered = self.sum(|verdict| verdict.delivered);
        let done_within = |time: Duration| (delivered as f64 / self.chaos.duration.as_secs_f64() * time.as_secs_f64()) as usize;
        // The interval before and the one that was under way.
        let unstored = done_within(2 * COMMIT_INTERVAL);
        // Without ZooKeeper, what is done while the lease lasts.
        let unstorable = unstored + done_within(SESSION * 2 / 3);
        let away = [Deed::Kill, Deed::Terminate, Deed::Freeze, Deed::CutOff, Deed::Slow];
        match cause {
            // What was in flight; of a receiver from all pushers, and again for each timeout that passes meanwhile.
            Cause::AnswerLost => {
                let receivers = count(Kind::Receiver, &away) * 4 + count(Kind::Receiver, &[Deed::Reset]);
                let pushers = count(Kind::Pusher, &[Deed::Freeze, Deed::CutOff, Deed::Terminate]);
                Some(receivers * WORKERS * PUSHERS + pushers * of_one + count(Kind::ZooKeeper, &away) * of_one * PUSHERS)
            }
            Cause::Replay => None,
            Cause::Takeover(deed @ (Deed::Kill | Deed::Freeze)) => Some(count(Kind::Pusher, &[deed]) * (of_one + unstored)),
            Cause::Takeover(deed @ Deed::CutOff) => Some(count(Kind::Pusher, &[deed]) * (of_one + unstorable)),
            // Attempts that were cut at the end of the drain.
            Cause::Takeover(deed) => Some(count(Kind::Pusher, &[deed]) * of_one),
            Cause::OtherTakeover => Some(count(Kind::ZooKeeper, &away) * (of_one * PUSHERS + unstorable)),
        }
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

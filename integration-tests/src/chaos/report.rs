//! The table at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::Chaos;
use super::faults::{Deed, Fault, Journal, Kind};
use super::traffic::Sent;
use super::verdict::{Cause, Verdict, judge, takeovers};
use super::world::{COMMIT_INTERVAL, GROUPS, WORKERS, World};

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
        let groups = world.callbacks.iter().map(|callback| (callback.group, judge(callback, sent, &faults))).collect();
        let takeovers = world.callbacks.iter().flat_map(|callback| takeovers(&callback.seen(), &faults)).collect();
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

    pub fn reordered(&self) -> usize {
        self.sum(|verdict| verdict.reordered.len())
    }

    /// Of a key, by owners that were alive.
    pub fn overlapping(&self) -> usize {
        self.sum(|verdict| verdict.overlapping.len())
    }

    pub fn repeats(&self) -> usize {
        self.sum(|verdict| verdict.repeats.values().sum())
    }

    /// How many may be delivered again because of `cause`; `None`: as many as were replayed.
    fn bound(&self, cause: Cause) -> Option<usize> {
        let count =
            |deeds: &[Deed], kinds: &[Kind]| self.faults.iter().filter(|f| deeds.contains(&f.deed) && kinds.contains(&f.kind)).count();
        let delivered = self.sum(|verdict| verdict.delivered);
        let in_an_interval = delivered as f64 / self.chaos.duration.as_secs_f64() * COMMIT_INTERVAL.as_secs_f64();
        let in_flight = WORKERS * GROUPS.len();
        // Both the former and the latter interval may have been under way when it was cut.
        let each = in_flight + (2.0 * in_an_interval) as usize;
        match cause {
            Cause::AnswerLost => Some(self.faults.len() * in_flight),
            Cause::Replay => None,
            Cause::Takeover(deed) => Some(count(&[deed], &[Kind::Pusher]) * each),
            Cause::OtherTakeover => Some(count(&[Deed::Kill, Deed::Freeze], &[Kind::ZooKeeper]) * each),
        }
    }

    /// More repeats of one cause than may be. To which cause one belongs is a guess where faults overlap.
    pub fn repeats_beyond_bound(&self) -> Vec<String> {
        let beyond =
            self.repeats_by_cause().into_iter().filter(|(cause, repeats)| self.bound(*cause).is_some_and(|bound| *repeats > bound));
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Chaos { seed, duration } = self.chaos;
        writeln!(f, "seed {seed}, {:.0} s of faults, {} faults", duration.as_secs_f64(), self.faults.len())?;
        let mut by_kind: BTreeMap<(Kind, Deed), usize> = BTreeMap::new();
        self.faults.iter().for_each(|fault| *by_kind.entry((fault.kind, fault.deed)).or_default() += 1);
        for ((kind, deed), count) in by_kind {
            writeln!(f, "  {kind:<18} {deed:<20} {count:>6}")?;
        }
        writeln!(f, "messages acknowledged {:>22}", self.acked)?;
        writeln!(f, "  refused, certainly not written {:>11}", self.refused)?;
        writeln!(f, "  without a definite answer {:>16}", self.unknown)?;
        writeln!(f, "deliveries, first ones {:>21}", self.sum(|verdict| verdict.delivered))?;
        writeln!(f, "lost {:>39}", self.lost())?;
        writeln!(f, "reordered {:>34}", self.reordered())?;
        writeln!(f, "overlapping attempts, live owners {:>10}", self.overlapping())?;
        writeln!(f, "  of an owner that was frozen {:>14}", self.sum(|verdict| verdict.overlapping_frozen))?;
        writeln!(f, "  of requests held in the network {:>9}", self.sum(|verdict| verdict.overlapping_held))?;
        writeln!(f, "delivered again {:>28}", self.repeats())?;
        for (cause, repeats) in self.repeats_by_cause() {
            let bound = self.bound(cause).map_or_else(|| "what was replayed".to_owned(), |bound| bound.to_string());
            writeln!(f, "  {:<28} {repeats:>12}  (at most {bound})", cause.to_string())?;
        }
        for (group, verdict) in &self.groups {
            let (pause, at) = &verdict.longest_pause;
            writeln!(f, "longest pause of {group:<10} {:>14.1} s  ({at})", pause.as_secs_f64())?;
        }
        let mut takeovers: Vec<f64> = self.takeovers.iter().map(Duration::as_secs_f64).collect();
        takeovers.sort_by(f64::total_cmp);
        if let (Some(median), Some(longest)) = (takeovers.get(takeovers.len() / 2), takeovers.last()) {
            writeln!(f, "taken over after kill -9 {:>17.1} s  median of {}, longest {longest:.1} s", median, takeovers.len())?;
        }
        match self.settled {
            Some(took) => writeln!(f, "all delivered {:>28.1} s after the last fault", took.as_secs_f64())?,
            None => writeln!(f, "NOT all delivered when time was up")?,
        }
        for (group, verdict) in &self.groups {
            verdict.lost.iter().take(5).try_for_each(|place| writeln!(f, "  {group}: lost {place}"))?;
            verdict.reordered.iter().take(5).try_for_each(|place| writeln!(f, "  {group}: reordered {place:?}"))?;
            verdict.overlapping.iter().take(5).try_for_each(|overlap| writeln!(f, "  {group}: overlapping {overlap}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnswerLost => f.write_str("its answer was lost"),
            Self::Replay => f.write_str("replay"),
            Self::Takeover(deed) => write!(f, "pusher: {deed}"),
            Self::OtherTakeover => f.write_str("ZooKeeper away"),
        }
    }
}

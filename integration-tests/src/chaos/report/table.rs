//! The table at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::Report;
use crate::chaos::Chaos;
use crate::chaos::faults::{Deed, Kind};
use crate::chaos::verdict::{Cause, Verdict};
use crate::ledger::BROKEN;

/// Of each kind of trouble so many are named.
const NAMED: usize = 5;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Chaos { seed, duration, .. } = &self.chaos;
        writeln!(f, "seed {seed}, {:.0} s of faults, {} faults", duration.as_secs_f64(), self.done.faults.len())?;
        write_kinds(f, "", self.done.faults.iter().map(|fault| (fault.kind, fault.deed)))?;
        write_kinds(f, "  nobody says whether it was done", self.done.doubtful.iter().copied())?;
        write_kinds(f, "  refused, and not counted", self.done.refused.iter().copied())?;
        count(f, "messages acknowledged", self.acked)?;
        count(f, "  refused, certainly not written", self.refused)?;
        count(f, "  without a definite answer", self.unknown)?;
        count(f, "deliveries, first ones", self.sum(|verdict| verdict.delivered))?;
        count(f, "lost", self.lost())?;
        count(f, "reordered", self.reordered())?;
        count(f, "overlapping attempts, live owners", self.overlapping())?;
        count(f, "  of an owner that was frozen", self.sum(|verdict| verdict.overlaps.frozen))?;
        count(f, "  none: given up before the next", self.sum(|verdict| verdict.overlaps.given_up))?;
        count(f, "  none: held back by the network", self.sum(|verdict| verdict.overlaps.came_late))?;
        count(f, "replayed and not delivered again", self.not_replayed())?;
        count(f, "attempts of a paused group", self.while_paused())?;
        self.write_repeats(f)?;
        self.write_times(f)?;
        self.write_troubles(f)
    }
}

fn write_kinds(f: &mut fmt::Formatter<'_>, remark: &str, done: impl Iterator<Item = (Kind, Deed)>) -> fmt::Result {
    let mut by_kind: BTreeMap<(Kind, Deed), usize> = BTreeMap::new();
    done.for_each(|done| *by_kind.entry(done).or_default() += 1);
    by_kind.into_iter().try_for_each(|((kind, deed), count)| writeln!(f, "  {kind:<18} {deed:<20} {count:>9}{remark}"))
}

fn count(f: &mut fmt::Formatter<'_>, what: &str, count: usize) -> fmt::Result {
    writeln!(f, "{what:<35} {count:>14}")
}

impl Report {
    fn write_repeats(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        count(f, "delivered again", self.repeats())?;
        for (cause, repeats) in self.repeats_by_cause() {
            writeln!(f, "  {:<33} {repeats:>14}  (at most {})", cause.to_string(), self.bound(cause))?;
        }
        Ok(())
    }

    fn write_times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "longest time without progress while something waits, in seconds")?;
        for (group, verdict) in &self.groups {
            let topics: BTreeMap<&str, Vec<String>> = verdict.pauses.iter().fold(BTreeMap::new(), |mut topics, ((topic, _), pause)| {
                topics.entry(topic.as_str()).or_default().push(format!("{:5.1}", pause.as_secs_f64()));
                topics
            });
            topics.iter().try_for_each(|(topic, pauses)| writeln!(f, "  {group:<8} {topic:<8} by partition {}", pauses.join(" ")))?;
        }
        let mut takeovers: Vec<f64> = self.takeovers.iter().map(Duration::as_secs_f64).collect();
        takeovers.sort_by(f64::total_cmp);
        match (takeovers.get(takeovers.len() / 2), takeovers.last()) {
            (Some(median), Some(longest)) => {
                writeln!(f, "taken over after kill -9 {median:>23.1} s  median of {}, longest {longest:.1} s", takeovers.len())?;
            }
            _ => writeln!(f, "taken over after kill -9                 never undisturbed")?,
        }
        let mut obeyed: Vec<f64> = self.groups.iter().flat_map(|(_, verdict)| &verdict.obeyed).map(Duration::as_secs_f64).collect();
        obeyed.sort_by(f64::total_cmp);
        if let Some(slowest) = obeyed.last() {
            writeln!(f, "last attempt after a pause's answer {slowest:>14.1} s  at the latest, in {} long pauses", obeyed.len())?;
        }
        match self.settled {
            Some(took) => writeln!(f, "all delivered {:>34.1} s after the last fault", took.as_secs_f64()),
            None => writeln!(f, "NOT all delivered when time was up: {}", self.late()),
        }
    }

    fn write_troubles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (group, Verdict { lost, late, reordered, overlaps, not_replayed, while_paused, .. }) in &self.groups {
            let troubles = [("lost", lost), ("late", late), ("reordered", reordered), ("overlapping", &overlaps.live)];
            for (what, places) in troubles.into_iter().chain([("not replayed", not_replayed), ("paused, and yet", while_paused)]) {
                places.iter().take(NAMED).try_for_each(|place| writeln!(f, "  {group}: {what} {place}"))?;
            }
        }
        self.repeats_beyond_bound().iter().try_for_each(|beyond| writeln!(f, "MORE REPEATS THAN THEIR BOUND: {beyond}"))?;
        if self.keeps_the_guarantee() { Ok(()) } else { writeln!(f, "{BROKEN}") }
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

//! The longest time without progress.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::{Case, topics_of};
use crate::chaos::traffic::Sent;
use crate::ledger::hash;

/// While something that was acknowledged waits, the time between two first successes.
pub(super) fn pauses(case: &Case, sent: &Sent) -> BTreeMap<(String, u32), Duration> {
    let mut first: HashMap<[u8; 16], Instant> = HashMap::new();
    for seen in case.seen.iter().filter(|seen| seen.succeeded()) {
        let done = first.entry(hash(&seen.body)).or_insert(seen.at);
        *done = seen.at.min(*done);
    }
    let mut steps: BTreeMap<(String, u32), Vec<(Instant, Step)>> = BTreeMap::new();
    for (acked, at) in sent.acked.iter().filter(|(acked, _)| topics_of(case.group).contains(&acked.topic.as_str())) {
        let Some(done) = first.get(&acked.digest).filter(|done| *done > at) else { continue };
        let steps = steps.entry((acked.topic.clone(), acked.partition)).or_default();
        steps.extend([(*at, Step::Waits), (*done, Step::Done)]);
    }
    steps.into_iter().map(|(partition, steps)| (partition, longest(steps))).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Waits,
    Done,
}

fn longest(mut steps: Vec<(Instant, Step)>) -> Duration {
    steps.sort_unstable();
    let (mut waiting, mut longest) = (0_usize, Duration::ZERO);
    let Some((mut since, _)) = steps.first().copied() else { return longest };
    for (at, step) in steps {
        match step {
            Step::Waits if waiting == 0 => (since, waiting) = (at, 1),
            Step::Waits => waiting += 1,
            Step::Done => {
                longest = longest.max(at.duration_since(since));
                (since, waiting) = (at, waiting - 1);
            }
        }
    }
    longest
}

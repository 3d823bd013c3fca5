//! What retention drops: a pure decision over what there is.
//!
//! The unit is a run (one partition in one sealed segment), as a segment is Kafka's. Age spares
//! what a group has not passed; size spares nothing, since the alternative is a full disk, but
//! says so before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::metrics::Cause;
use crate::record::TimestampMs;

/// One partition, as retention sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    /// In offset order.
    pub(super) runs: Vec<KeptRun>,
    /// The lowest offset that some group has yet to deliver; `None` if no group reads it.
    pub(super) needed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeptRun {
    pub(super) base: u64,
    pub(super) end: u64,
    pub(super) bytes: u64,
    pub(super) max_timestamp: TimestampMs,
    /// What is still being filled stays.
    pub(super) sealed: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// Older is dropped; `None`: it is not known yet what is needed, so age drops nothing.
    pub(super) expired_before: Option<TimestampMs>,
    pub(super) max_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drop {
    /// Which of the partitions.
    pub(super) index: usize,
    pub(super) run: KeptRun,
    pub(super) cause: Cause,
    /// Some group had records of it still to deliver.
    pub(super) undelivered: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// Per partition in offset order.
    pub(super) drops: Vec<Drop>,
    /// Next to go for its size, with undelivered records, when the log is nearly as large as it may be.
    pub(super) endangered: Option<(usize, KeptRun)>,
}

impl Kept {
    fn needs(&self, run: &KeptRun) -> bool {
        self.needed.is_some_and(|needed| needed < run.end)
    }
}

pub(super) fn decide(partitions: &[Kept], policy: Policy) -> Decision {
    let mut drops = Vec::new();
    let mut fronts = vec![0; partitions.len()];
    for (index, kept) in partitions.iter().enumerate() {
        let expired = |run: &&KeptRun| {
            let old = policy.expired_before.is_some_and(|time| run.max_timestamp < time);
            run.sealed && old && !kept.needs(run)
        };
        for &run in kept.runs.iter().take_while(expired) {
            fronts[index] += 1;
            drops.push(Drop { index, run, cause: Cause::Age, undelivered: false });
        }
    }
    let endangered = policy.max_bytes.and_then(|max| drop_for_size(partitions, &mut fronts, max, &mut drops));
    Decision { drops, endangered }
}

fn drop_for_size(partitions: &[Kept], fronts: &mut [usize], max_bytes: u64, drops: &mut Vec<Drop>) -> Option<(usize, KeptRun)> {
    let left = partitions.iter().zip(&*fronts).flat_map(|(kept, &front)| &kept.runs[front..]);
    let mut total: u64 = left.map(|run| run.bytes).sum();
    let front = |index: usize, fronts: &[usize]| partitions[index].runs.get(fronts[index]).filter(|run| run.sealed);
    let age = |index, fronts: &[usize]| front(index, fronts).map(|run| Reverse((run.max_timestamp, index)));
    let mut oldest: BinaryHeap<_> = (0..partitions.len()).filter_map(|index| age(index, fronts)).collect();
    while let Some(Reverse((_, index))) = oldest.pop() {
        let run = *front(index, fronts)?;
        let undelivered = partitions[index].needs(&run);
        if total <= max_bytes {
            let nearly = total > max_bytes - max_bytes / 10;
            return (nearly && undelivered).then_some((index, run));
        }
        drops.push(Drop { index, run, cause: Cause::Size, undelivered });
        total -= run.bytes;
        fronts[index] += 1;
        oldest.extend(age(index, fronts));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(base: u64, end: u64, max_timestamp: i64) -> KeptRun {
        KeptRun { base, end, bytes: (end - base) * 10, max_timestamp, sealed: true }
    }

    fn dropped(decision: &Decision) -> Vec<(usize, u64, Cause, bool)> {
        decision.drops.iter().map(|drop| (drop.index, drop.run.end, drop.cause, drop.undelivered)).collect()
    }

    const AGE: Policy = Policy { expired_before: Some(100), max_bytes: None };

    #[test]
    fn age_drops_what_no_group_needs() {
        let runs = vec![run(0, 10, 50), run(10, 20, 99), run(20, 30, 100)];
        let unread = Kept { runs: runs.clone(), needed: None };
        let read_to_15 = Kept { runs, needed: Some(15) };
        let decision = decide(&[unread, read_to_15], AGE);
        assert_eq!(dropped(&decision), [(0, 10, Cause::Age, false), (0, 20, Cause::Age, false), (1, 10, Cause::Age, false)]);
    }

    #[test]
    fn age_drops_nothing_while_nobody_has_said_what_is_needed() {
        let kept = Kept { runs: vec![run(0, 10, 0)], needed: None };
        assert_eq!(decide(&[kept], Policy { expired_before: None, max_bytes: None }), Decision::default());
    }

    #[test]
    fn an_old_run_behind_a_young_one_stays() {
        let kept = Kept { runs: vec![run(0, 10, 200), run(10, 20, 1)], needed: None };
        assert_eq!(decide(&[kept], AGE), Decision::default());
    }

    #[test]
    fn size_drops_the_oldest_of_all_partitions_delivered_or_not() {
        let a = Kept { runs: vec![run(0, 10, 300), run(10, 20, 500)], needed: Some(5) };
        let b = Kept { runs: vec![run(0, 10, 400), run(10, 20, 600)], needed: None };
        let decision = decide(&[a, b], Policy { expired_before: Some(0), max_bytes: Some(200) });
        assert_eq!(dropped(&decision), [(0, 10, Cause::Size, true), (1, 10, Cause::Size, false)]);
    }

    #[test]
    fn undelivered_records_are_named_before_they_go() {
        let kept = Kept { runs: vec![run(0, 10, 300), run(10, 20, 500)], needed: Some(5) };
        let policy = |max| Policy { expired_before: Some(0), max_bytes: Some(max) };
        assert_eq!(decide(std::slice::from_ref(&kept), policy(210)).endangered, Some((0, run(0, 10, 300))));
        assert_eq!(decide(&[kept], policy(300)).endangered, None);
    }

    #[test]
    fn what_is_being_filled_stays() {
        let filling = KeptRun { sealed: false, ..run(0, 100, 0) };
        let kept = Kept { runs: vec![filling], needed: None };
        assert_eq!(decide(&[kept], Policy { max_bytes: Some(1), ..AGE }), Decision::default());
    }
}

//! What is done above a cursor, as runs of offsets.

use std::ops::Range;

use crate::ids::Offset;

pub use self::tries::Tries;

pub mod node;
pub mod runs;
mod tries;

/// Of a node's first line, without attempts.
const HEADER_BYTES: usize = 130;

/// Ascending, disjoint, not touching, not empty runs of offsets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DoneSet(Vec<Range<u64>>);

impl DoneSet {
    /// `None` unless the runs are ascending, disjoint, apart and not empty.
    pub fn from_runs(runs: Vec<Range<u64>>) -> Option<Self> {
        let each = runs.iter().all(|run| run.start < run.end);
        let apart = runs.windows(2).all(|pair| pair[0].end < pair[1].start);
        (each && apart).then_some(Self(runs))
    }

    pub fn runs(&self) -> &[Range<u64>] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, offset: Offset) -> bool {
        let after = self.0.partition_point(|run| run.start <= offset.0);
        after > 0 && offset.0 < self.0[after - 1].end
    }

    /// How many offsets of `range` are in the set.
    pub fn count_in(&self, range: Range<u64>) -> u64 {
        self.0.iter().map(|run| run.end.min(range.end).saturating_sub(run.start.max(range.start))).sum()
    }

    /// About how many bytes a node with this set above `cursor` takes.
    pub fn node_bytes(&self, cursor: Offset) -> usize {
        HEADER_BYTES + runs::text_bytes(self, cursor, node::MAX_BYTES)
    }

    /// Without what lies outside of `range`.
    #[must_use]
    pub fn within(&self, range: Range<u64>) -> Self {
        let cut = self.0.iter().map(|run| run.start.max(range.start)..run.end.min(range.end));
        Self(cut.filter(|run| run.start < run.end).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(runs: &[Range<u64>]) -> DoneSet {
        DoneSet::from_runs(runs.to_vec()).unwrap()
    }

    #[test]
    fn runs_that_touch_overlap_or_are_empty_are_no_set() {
        for runs in [vec![1..2, 2..3], vec![1..3, 2..4], vec![3..4, 1..2], vec![2..2]] {
            assert_eq!(DoneSet::from_runs(runs.clone()), None, "{runs:?}");
        }
    }

    #[test]
    fn membership_is_that_of_the_runs() {
        let set = set(&[3..5, 9..10]);
        let members: Vec<u64> = (0..12).filter(|offset| set.contains(Offset(*offset))).collect();
        assert_eq!(members, [3, 4, 9]);
    }

    #[test]
    fn a_set_is_cut_and_counted_by_range() {
        let set = set(&[3..5, 9..14]);
        assert_eq!(set.within(4..12).runs(), [4..5, 9..12]);
        assert!(set.within(5..9).is_empty());
        assert_eq!((set.count_in(0..20), set.count_in(4..12), set.count_in(5..9)), (7, 4, 0));
    }
}

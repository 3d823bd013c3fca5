//! What is done above a cursor, as runs of offsets.

use std::ops::Range;

use crate::ids::Offset;

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
}

//! Attempts that failed, of records that are not done: so that one on its way to being bypassed gets
//! there however often its partition moves.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::DoneSet;
use crate::ids::Offset;

/// By offset, of the lowest at most [`Tries::MAX_RECORDS`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tries(BTreeMap<u64, u32>);

impl Tries {
    pub const MAX_RECORDS: usize = 64;

    pub fn of(tries: impl IntoIterator<Item = (Offset, u32)>) -> Self {
        Self(tries.into_iter().map(|(offset, attempts)| (offset.0, attempts)).collect()).bounded()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Offset, u32)> + '_ {
        self.0.iter().map(|(offset, attempts)| (Offset(*offset), *attempts))
    }

    /// Of what lies in `range` and is not done.
    #[must_use]
    pub fn within(&self, range: Range<u64>, done: &DoneSet) -> Self {
        Self::of(self.iter().filter(|(offset, _)| range.contains(&offset.0) && !done.contains(*offset)))
    }

    #[must_use]
    pub(super) fn bounded(mut self) -> Self {
        while self.0.len() > Self::MAX_RECORDS {
            self.0.pop_last();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_the_lowest_are_kept() {
        let tries = Tries::of((0..100).rev().map(|offset| (Offset(offset), 1)));
        assert_eq!(tries.iter().map(|(offset, _)| offset.0).collect::<Vec<_>>(), (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_done_or_not_in_the_log_has_no_tries() {
        let tries = Tries::of([(Offset(1), 1), (Offset(4), 2), (Offset(6), 3), (Offset(9), 4)]);
        let done = DoneSet::from_runs(vec![5..8]).unwrap();
        assert_eq!(tries.within(2..9, &done), Tries::of([(Offset(4), 2)]));
    }
}

//! What a way may cost.

use std::fmt;

use crate::cost::Cost;

/// Counts differ by a few percent from run to run, by how many messages meet in a commit or a read.
const MARGIN: f64 = 0.25;
/// Cheaper than this, the figure is out of date, and the way could become twice as dear unnoticed.
const SHARE_TO_KEEP: f64 = 0.65;
const _: () = assert!((1.0 + MARGIN) / SHARE_TO_KEEP < 2.0);

/// What one message was measured to cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) way: &'static str,
    pub(crate) at: Cost,
}

impl Limit {
    /// `Err` says what to do.
    pub(crate) fn judge(&self, measured: Cost) -> Result<(), String> {
        let Self { way, at } = self;
        let most = self.most();
        if measured.allocations > most.allocations || measured.bytes > most.bytes {
            return Err(format!(
                "{way} costs {measured}; it used to cost {at}, and may cost {most}.\n\
                 Where they are made: MQGATE_HEAP_PROFILE=FOLDER cargo test --workspace --test allocations, \
                 then open the file in valgrind's dh_view.html (docs/performance.md, \"Guard and profiles\")."
            ));
        }
        if measured.allocations < at.allocations * SHARE_TO_KEEP {
            return Err(format!(
                "{way} costs {measured}, much less than the {at} in the table: write the new figures there, in mqgate/tests/allocations/main.rs."
            ));
        }
        Ok(())
    }

    fn most(&self) -> Cost {
        let Cost { allocations, bytes } = self.at;
        Cost { allocations: allocations * (1.0 + MARGIN), bytes: bytes * (1.0 + MARGIN) }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} in the table, {} at most", self.way, self.at, self.most())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { way: "a way", at: Cost { allocations: 40.0, bytes: 4_000.0 } };

    fn judge(allocations: f64, bytes: f64) -> Result<(), String> {
        LIMIT.judge(Cost { allocations, bytes })
    }

    #[test]
    fn a_quarter_more_is_too_much() {
        assert_eq!(judge(49.9, 4_999.0), Ok(()));
        assert!(judge(50.1, 4_000.0).unwrap_err().contains("a way costs 50.1 allocations"));
        assert!(judge(40.0, 5_001.0).unwrap_err().contains("may cost 50.0 allocations of 5000 bytes"));
    }

    #[test]
    fn a_figure_that_would_let_the_cost_double_is_out_of_date() {
        assert_eq!(judge(26.1, 100.0), Ok(()));
        assert!(judge(25.0, 4_000.0).unwrap_err().contains("write the new figures"));
    }
}

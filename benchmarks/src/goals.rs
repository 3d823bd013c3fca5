//! What is to be reached, beside what was.

use crate::table;

pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

pub(crate) struct Goal {
    what: String,
    value: f64,
    bound: Bound,
}

impl Goal {
    pub(crate) fn at_least(what: impl Into<String>, value: f64, bound: f64) -> Self {
        Self { what: what.into(), value, bound: Bound::AtLeast(bound) }
    }

    pub(crate) fn at_most(what: impl Into<String>, value: f64, bound: f64) -> Self {
        Self { what: what.into(), value, bound: Bound::AtMost(bound) }
    }

    /// The same, said of something.
    pub(crate) fn of(self, what: &str) -> Self {
        Self { what: format!("{what}: {}", self.what), ..self }
    }

    fn reached(&self) -> bool {
        match self.bound {
            Bound::AtLeast(bound) => self.value >= bound,
            Bound::AtMost(bound) => self.value <= bound,
        }
    }

    fn cells(self) -> Vec<String> {
        let verdict = if self.reached() { "reached" } else { "missed" };
        let bound = match self.bound {
            Bound::AtLeast(bound) => format!("≥ {bound}"),
            Bound::AtMost(bound) => format!("≤ {bound}"),
        };
        vec![self.what, verdict.to_owned(), format!("{:.2}", self.value), bound]
    }
}

pub(crate) fn print(goals: Vec<Goal>) {
    table::print(&["GOAL", "", "MEASURED", "TO REACH"], 2, goals.into_iter().map(Goal::cells));
}

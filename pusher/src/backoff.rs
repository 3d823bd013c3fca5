//! Waiting between repeated tries at something that does not answer.

use std::time::Duration;

/// Doubles from 100 ms to a bound, each uniform in [half, whole].
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    pub(crate) const FIRST: Duration = Duration::from_millis(100);

    pub(crate) fn new(max: Duration) -> Self {
        Self { next: Self::FIRST, max }
    }

    pub(crate) fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    /// How long to wait now.
    pub(crate) fn step(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.max);
        whole.mul_f64(part())
    }
}

fn part() -> f64 {
    #[cfg(test)]
    if let Some(part) = simulated::part() {
        return part;
    }
    rand::random_range(0.5..=1.0)
}

/// The chance of a thread on which all is to come the same each time.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::RefCell;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    thread_local! {
        static CHANCE: RefCell<Option<SmallRng>> = const { RefCell::new(None) };
    }

    /// From here on, for this thread.
    pub(crate) fn begin() {
        CHANCE.set(Some(SmallRng::seed_from_u64(1)));
    }

    pub(super) fn part() -> Option<f64> {
        CHANCE.with_borrow_mut(|chance| Some(chance.as_mut()?.random_range(0.5..=1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_its_bound_and_begins_again() {
        let mut backoff = Backoff::new(Duration::from_millis(300));
        for whole in [100, 200, 300, 300] {
            let step = backoff.step();
            assert!(step >= Duration::from_millis(whole / 2) && step <= Duration::from_millis(whole), "{step:?} of {whole}");
        }
        backoff.reset();
        assert!(backoff.step() <= Backoff::FIRST);
    }
}

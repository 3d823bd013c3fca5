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
        whole.mul_f64(rand::random_range(0.5..=1.0))
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

//! One kind of process is broken by one lane, one fault after the other.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio_util::sync::CancellationToken;

use super::faults::Journal;

pub(super) struct Lane {
    pub(super) journal: Journal,
    seed: u64,
    faults: u64,
    random: StdRng,
    end: CancellationToken,
}

impl Lane {
    /// `number` keeps lanes of one seed apart.
    pub(super) fn new(seed: u64, number: u64, journal: Journal, end: &CancellationToken) -> Self {
        let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number << 32);
        Self { journal, seed, faults: 0, random: StdRng::seed_from_u64(seed), end: end.clone() }
    }

    /// A pause between two faults; `false` once no more are asked for.
    pub(super) async fn next(&mut self) -> bool {
        // What one fault draws, which may depend on what comes of it, changes nothing of the next one.
        self.random = StdRng::seed_from_u64(self.seed.wrapping_add(self.faults));
        self.faults += 1;
        let pause = self.seconds(4.0, 16.0);
        self.end.run_until_cancelled(tokio::time::sleep(pause)).await.is_some()
    }

    pub(super) fn seconds(&mut self, least: f64, most: f64) -> Duration {
        Duration::from_secs_f64(self.random.random_range(least..most))
    }

    pub(super) fn below(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A fault lasts so long, whether or not the run is over.
    pub(super) async fn hold(&mut self, least: f64, most: f64) {
        let pause = self.seconds(least, most);
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn what_one_fault_draws_changes_nothing_of_the_next() {
        let end = CancellationToken::new();
        end.cancel();
        let journal = Journal::new(Instant::now(), |_| {});
        let mut lanes = [(7, 1), (7, 1), (8, 1), (7, 2)].map(|(seed, number)| Lane::new(seed, number, journal.clone(), &end));
        let mut drawn = Vec::new();
        for (more, lane) in lanes.iter_mut().enumerate() {
            assert!(!lane.next().await);
            for _ in 0..more {
                lane.below(1_000);
            }
            lane.next().await;
            drawn.push([(); 8].map(|()| lane.below(1_000)));
        }
        assert_eq!(drawn[0], drawn[1], "the seed alone decides");
        assert!(drawn[1] != drawn[2] && drawn[1] != drawn[3], "and each lane is another one");
    }
}

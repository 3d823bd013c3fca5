//! Which keys messages have: all alike, or a few with most of the messages.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Uniform, Zipf};

use crate::message::Label;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// One after the other.
    Even,
    /// Drawn, with equal chances.
    Uniform,
    /// With exponent 1.0: of 10,000 keys the first has a tenth of the messages.
    Zipf,
}

/// Labels without end, each key numbered by itself; the same in every run.
pub(crate) struct Labels {
    spread: Spread,
    next: Vec<u32>,
    drawn: SmallRng,
    at: u32,
}

impl Labels {
    pub(crate) fn new(spread: Spread, keys: u32) -> Self {
        Self { spread, next: vec![0; keys as usize], drawn: SmallRng::seed_from_u64(1), at: 0 }
    }

    fn key(&mut self) -> u32 {
        let keys = u32::try_from(self.next.len()).expect("made of one");
        match self.spread {
            Spread::Even => {
                self.at = (self.at + 1) % keys;
                self.at
            }
            Spread::Uniform => Uniform::new(0, keys).expect("there is a key").sample(&mut self.drawn),
            // From 1 to the number of keys, whole.
            Spread::Zipf => Zipf::new(f64::from(keys), 1.0).expect("there is a key").sample(&mut self.drawn) as u32 - 1,
        }
    }
}

impl Iterator for Labels {
    type Item = Label;

    fn next(&mut self) -> Option<Label> {
        let key = self.key();
        let number = &mut self.next[key as usize];
        *number += 1;
        Some(Label { key, number: *number - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_numbered_without_gaps() {
        for spread in [Spread::Even, Spread::Uniform, Spread::Zipf] {
            let mut next = [0; 50];
            for label in Labels::new(spread, 50).take(5_000) {
                assert_eq!(label.number, next[label.key as usize]);
                next[label.key as usize] += 1;
            }
            assert!(next.iter().all(|count| *count > 0), "{spread:?} {next:?}");
        }
    }

    #[test]
    fn the_first_key_of_zipf_has_a_tenth() {
        let first = Labels::new(Spread::Zipf, 10_000).take(100_000).filter(|label| label.key == 0).count();
        assert!((9_000..12_000).contains(&first), "{first}");
    }
}

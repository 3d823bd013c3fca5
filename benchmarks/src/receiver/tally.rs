//! What came, message by message.

use std::collections::HashMap;

use super::{Failing, Manner, Seen};
use crate::message::Label;

/// Of one key.
#[derive(Default)]
struct OfKey {
    open: u32,
    /// A bit for each message answered 200.
    done: Vec<u64>,
    highest: Option<u32>,
}

impl OfKey {
    /// Whether this one was done before.
    fn mark(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.done.len() <= word {
            self.done.resize(word + 1, 0);
        }
        let before = self.done[word] & bit != 0;
        self.done[word] |= bit;
        before
    }
}

#[derive(Default)]
pub(super) struct Tally {
    manner: Manner,
    keys: HashMap<u32, OfKey>,
    seen: Seen,
    arrivals: Vec<(Label, u64)>,
}

impl Tally {
    pub(super) fn new(manner: Manner) -> Self {
        Self { manner, ..Self::default() }
    }

    pub(super) fn begin(&mut self, label: Label, now_ns: u64) -> Manner {
        if self.seen.first_ns == 0 {
            self.seen.first_ns = now_ns;
        }
        let of_key = self.keys.entry(label.key).or_default();
        self.seen.overlapping += u64::from(of_key.open > 0);
        of_key.open += 1;
        if self.manner.note_arrivals {
            self.arrivals.push((label, now_ns));
        }
        self.manner
    }

    /// Whether it is answered 200.
    pub(super) fn end(&mut self, label: Label, now_ns: u64) -> bool {
        let of_key = self.keys.entry(label.key).or_default();
        of_key.open = of_key.open.saturating_sub(1);
        if self.manner.failing != Failing::None && self.manner.failing.has(label.key) {
            self.seen.failed += 1;
            return false;
        }
        if of_key.mark(label.number) {
            self.seen.repeated += 1;
        } else {
            self.seen.done += 1;
            self.seen.reordered += u64::from(of_key.highest.is_some_and(|highest| highest > label.number));
        }
        of_key.highest = of_key.highest.max(Some(label.number));
        self.seen.last_ns = now_ns;
        true
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.clone()
    }

    /// The first one of each message.
    pub(super) fn arrivals(&self) -> &[(Label, u64)] {
        &self.arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deliver(tally: &mut Tally, key: u32, number: u32) -> bool {
        let label = Label { key, number };
        tally.begin(label, 1);
        tally.end(label, 2)
    }

    #[test]
    fn repeats_and_wrong_order_are_told_apart() {
        let mut tally = Tally::new(Manner::default());
        for number in [0, 1, 1, 3, 2, 0] {
            assert!(deliver(&mut tally, 5, number));
        }
        let seen = tally.seen();
        assert_eq!((seen.done, seen.repeated, seen.reordered, seen.overlapping), (4, 2, 1, 0));
        assert!(seen.check(4).unwrap_err().to_string().contains("THE GUARANTEE IS BROKEN"));
    }

    #[test]
    fn two_open_requests_of_a_key_overlap_and_of_two_keys_do_not() {
        let mut tally = Tally::new(Manner::default());
        let label = |key, number| Label { key, number };
        tally.begin(label(1, 0), 1);
        tally.begin(label(2, 0), 1);
        assert_eq!(tally.seen().overlapping, 0);
        tally.begin(label(1, 1), 1);
        assert_eq!(tally.seen().overlapping, 1);
    }

    #[test]
    fn failing_keys_fail_always() {
        let mut tally = Tally::new(Manner { failing: Failing::OneInAHundred, ..Manner::default() });
        assert!(!deliver(&mut tally, 100, 0) && !deliver(&mut tally, 100, 0) && deliver(&mut tally, 101, 0));
        assert_eq!((tally.seen().done, tally.seen().failed), (1, 2));
    }
}

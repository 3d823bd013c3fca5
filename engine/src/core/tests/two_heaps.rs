//! The State Manager gives the answers of the two min-heaps that it was first described with.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};

use proptest::prelude::*;

use crate::core::list::Slot;
use crate::core::state::{Seen, StateManager};
use crate::ids::Offset;
use crate::ports::Progress;

/// The description, word for word.
#[derive(Default)]
struct TwoHeaps {
    in_process: BinaryHeap<Reverse<u64>>,
    done: BinaryHeap<Reverse<u64>>,
    committable: Option<u64>,
}

impl TwoHeaps {
    fn check(&mut self) {
        while let Some(Reverse(done)) = self.done.peek().copied() {
            let in_process = self.in_process.peek().map_or(u64::MAX, |Reverse(offset)| *offset);
            match in_process.cmp(&done) {
                Ordering::Less => return,
                Ordering::Equal => {
                    self.in_process.pop();
                    self.done.pop();
                    self.committable = Some(done);
                }
                // A replayed record.
                Ordering::Greater => drop(self.done.pop()),
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A record, so many offsets after the last.
    Read { gap: u64 },
    /// The end of one in process.
    Finish { which: prop::sample::Index },
    /// The end of something that is committed already, or was never admitted.
    FinishAgain,
    /// Fetched offsets that yielded no record.
    Empty { count: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..3).prop_map(|gap| Step::Read { gap }),
        4 => any::<prop::sample::Index>().prop_map(|which| Step::Finish { which }),
        1 => Just(Step::FinishAgain),
        1 => (1_u64..4).prop_map(|count| Step::Empty { count }),
    ];
    prop::collection::vec(step, 0..300)
}

/// Done runs at and above offset 10.
fn done_before() -> impl Strategy<Value = Vec<std::ops::Range<u64>>> {
    prop::collection::vec((1_u64..20, 1_u64..20), 0..6).prop_map(|runs| {
        let mut end = 10;
        let run = |(gap, length)| {
            let start = end + gap;
            end = start + length;
            start..end
        };
        runs.into_iter().map(run).collect()
    })
}

#[derive(Default)]
struct Ledger {
    admitted: BTreeSet<u64>,
    in_process: Vec<(u64, Slot)>,
}

impl Ledger {
    fn holds(&self, state: &StateManager<()>, heaps: &TwoHeaps, done_before: &[std::ops::Range<u64>]) -> Result<(), TestCaseError> {
        let Progress { cursor, done, .. } = state.progress();
        prop_assert_eq!(cursor, state.cursor());
        prop_assert_eq!(self.admitted.range(..cursor.0).next_back().copied(), heaps.committable, "the highest contiguous done offset");
        if let Some(Reverse(lowest)) = heaps.in_process.peek() {
            prop_assert_eq!(cursor.0, *lowest);
        }
        let is_done = |offset: u64| done.iter().any(|run| run.contains(&offset));
        for offset in self.admitted.range(cursor.0..) {
            let in_process = self.in_process.iter().any(|(other, _)| other == offset);
            prop_assert_eq!(is_done(*offset), !in_process, "offset {}", offset);
        }
        for offset in done_before.iter().cloned().flatten().filter(|offset| *offset >= cursor.0) {
            prop_assert!(is_done(offset), "offset {} was done before", offset);
        }
        prop_assert!(done.iter().all(|run| run.start < run.end && run.start > cursor.0));
        prop_assert!(done.windows(2).all(|pair| pair[0].end < pair[1].start));
        prop_assert!(done.len() <= self.in_process.len() + done_before.len() + 1);
        prop_assert_eq!(state.done_above_cursor(), done.iter().map(|run| run.end - run.start).sum::<u64>());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_state_manager_answers_like_two_heaps(steps in steps(), done_before in done_before()) {
        let mut state = StateManager::new(Progress { cursor: Offset(10), done: done_before.clone(), ..Progress::default() });
        let (mut heaps, mut ledger, mut next) = (TwoHeaps::default(), Ledger::default(), 10);
        for step in steps {
            let before = state.cursor();
            match step {
                Step::Read { gap } => {
                    next += gap;
                    let seen = state.seen(Offset(next));
                    let was_done = done_before.iter().any(|run| run.contains(&next));
                    prop_assert_eq!(seen, if was_done { Seen::Done } else { Seen::New });
                    if was_done {
                        state.advance(Offset(next + 1));
                    } else {
                        ledger.in_process.push((next, state.admit(Offset(next), ())));
                        ledger.admitted.insert(next);
                        heaps.in_process.push(Reverse(next));
                    }
                    prop_assert_eq!(state.seen(Offset(next)), Seen::Repeated);
                    next += 1;
                }
                Step::Finish { which } if !ledger.in_process.is_empty() => {
                    let (offset, slot) = ledger.in_process.swap_remove(which.index(ledger.in_process.len()));
                    state.finish(slot);
                    heaps.done.push(Reverse(offset));
                }
                Step::Finish { .. } => {}
                Step::FinishAgain => heaps.committable.into_iter().for_each(|offset| heaps.done.push(Reverse(offset))),
                Step::Empty { count } => {
                    next += count;
                    state.advance(Offset(next));
                }
            }
            heaps.check();
            ledger.holds(&state, &heaps, &done_before)?;
            prop_assert!(state.cursor() >= before, "a cursor never goes back");
            let again = StateManager::<()>::new(state.progress());
            prop_assert_eq!(again.progress(), state.progress(), "what is stored is what is resumed");
        }
    }
}

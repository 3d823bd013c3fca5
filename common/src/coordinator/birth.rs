//! Where a group starts in a topic, decided once: the rule of "Birth".

use super::{Birth, Log};
use crate::ids::{Offset, Partition};

/// What is to be written at first sight of a group and a topic. `has_cursor`: the partitions of
/// this topic in which the group has a cursor already; `log`: by partition.
///
/// A group with a cursor anywhere in the topic is not new. Its other partitions start at their
/// first offset; what the list does not name does so anyway.
pub fn decide(asked: Birth, has_cursor: &[Partition], log: &[Log]) -> Birth {
    if has_cursor.is_empty() {
        return asked;
    }
    let known = asked.start.iter().zip(log).enumerate();
    let start = known.map(|(partition, (start, log))| {
        let of_cursor = has_cursor.iter().any(|with| with.0 as usize == partition);
        if of_cursor { *start } else { log.first }
    });
    Birth { start: start.collect::<Vec<Offset>>(), ..asked }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(first: u64) -> Log {
        Log { topic_id: None, first: Offset(first), end: Offset(first + 100), past_end: None }
    }

    fn at_the_end(partitions: u64) -> Birth {
        Birth { topic_id: None, start: vec![Offset(100); partitions as usize] }
    }

    #[test]
    fn a_new_group_starts_where_it_is_asked_to() {
        assert_eq!(decide(at_the_end(3), &[], &[log(0), log(1), log(2)]), at_the_end(3));
    }

    #[test]
    fn a_group_that_has_a_cursor_starts_elsewhere_at_the_first_offset() {
        let birth = decide(at_the_end(3), &[Partition(1)], &[log(0), log(1), log(2)]);
        assert_eq!(birth.start, [Offset(0), Offset(100), Offset(2)]);
    }

    #[test]
    fn a_cursor_beyond_the_list_makes_the_group_an_old_one_too() {
        assert_eq!(decide(at_the_end(1), &[Partition(9)], &[log(5)]).start, [Offset(5)]);
    }

    #[test]
    fn partitions_whose_log_is_not_known_are_left_to_their_first_offset() {
        assert_eq!(decide(at_the_end(3), &[Partition(0)], &[log(0)]).start, [Offset(100)]);
    }

    #[test]
    fn a_topic_that_does_not_exist_yet_leaves_nothing_to_decide() {
        assert_eq!(decide(at_the_end(0), &[Partition(0)], &[]), at_the_end(0));
    }
}

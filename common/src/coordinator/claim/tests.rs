//! Every branch of the decision.

use std::ops::Range;

use proptest::prelude::*;
use uuid::Uuid;

use super::super::done::node::{Header, Writer};
use super::super::{DoneSet, Tries};
use super::*;

fn id(number: u128) -> Option<TopicId> {
    Some(TopicId(Uuid::from_u128(number)))
}

fn log(first: u64, end: u64) -> Log {
    Log { topic_id: id(1), first: Offset(first), end: Offset(end), past_end: None }
}

fn set(runs: &[Range<u64>]) -> DoneSet {
    DoneSet::from_runs(runs.to_vec()).unwrap()
}

fn done_node(cursor: u64, runs: &[Range<u64>], topic_id: Option<TopicId>) -> String {
    let header = Header { writer: Writer { boot: Uuid::nil(), number: 1 }, topic_id, replayed_at: None };
    node::encode(&header, &progress(cursor, runs))
}

fn node(text: &str, mzxid: u64) -> Option<Node<'_>> {
    Some(Node { text: text.as_bytes(), mzxid })
}

fn progress(cursor: u64, runs: &[Range<u64>]) -> Progress {
    Progress { cursor: Offset(cursor), done: set(runs), ..Progress::default() }
}

/// The decision over a pair that was written as one.
fn of_pair(cursor: u64, runs: &[Range<u64>], log: &Log) -> (Progress, Began) {
    let done = done_node(cursor, runs, id(1));
    let cursor = cursor.to_string();
    let found = Found { cursor: node(&cursor, 5), done: node(&done, 5), birth: None };
    match decide(&found, Partition(0), log) {
        Err(Refusal::PastEnd(highest)) => decide(&found, Partition(0), &Log { past_end: Some(highest), ..*log }).unwrap(),
        decided => decided.unwrap(),
    }
}

fn of_birth(birth: &Birth, partition: u32, log: &Log) -> (Progress, Began) {
    decide(&Found { birth: Some(birth), ..Found::default() }, Partition(partition), log).unwrap()
}

#[test]
fn a_pair_is_taken_up_as_it_was_written() {
    assert_eq!(of_pair(10, &[12..15, 20..21], &log(0, 50)), (progress(10, &[12..15, 20..21]), Began::AtCursor));
}

#[test]
fn an_unreadable_cursor_stops_the_partition_also_where_there_is_a_birth() {
    let birth = Birth { topic_id: id(1), start: vec![Offset(3)] };
    let found = Found { cursor: node("ten", 5), birth: Some(&birth), ..Found::default() };
    assert_eq!(decide(&found, Partition(0), &log(0, 50)), Err(Refusal::UnreadableCursor("ten".into())));
}

#[test]
fn without_cursor_and_birth_nothing_is_decided() {
    let left_over = done_node(10, &[12..15], id(1));
    let found = Found { done: node(&left_over, 5), ..Found::default() };
    assert_eq!(decide(&found, Partition(0), &log(0, 50)), Err(Refusal::NotBorn));
}

#[test]
fn a_partition_without_cursor_starts_where_the_birth_says_and_beyond_its_list_at_its_first_offset() {
    let birth = Birth { topic_id: id(1), start: vec![Offset(30), Offset(40)] };
    assert_eq!(of_birth(&birth, 1, &log(5, 50)), (progress(40, &[]), Began::AtBirth));
    assert_eq!(of_birth(&birth, 2, &log(5, 50)), (progress(5, &[]), Began::AtBirth));
}

#[test]
fn a_group_born_before_its_topic_starts_at_the_topics_first_message() {
    let birth = Birth { topic_id: None, start: vec![] };
    assert_eq!(of_birth(&birth, 0, &log(0, 1)), (progress(0, &[]), Began::AtBirth));
}

#[test]
fn a_birth_in_a_topic_that_was_created_anew_starts_at_the_new_ones_first() {
    let birth = Birth { topic_id: id(2), start: vec![Offset(30)] };
    assert_eq!(of_birth(&birth, 0, &log(0, 50)), (progress(0, &[]), Began::TopicRecreated { abandoned: Offset(30) }));
}

#[test]
fn a_done_set_left_over_without_its_cursor_counts_for_nothing() {
    let birth = Birth { topic_id: id(1), start: vec![Offset(3)] };
    let left_over = done_node(3, &[5..9], id(1));
    let found = Found { cursor: None, done: node(&left_over, 5), birth: Some(&birth) };
    assert_eq!(decide(&found, Partition(0), &log(0, 50)), Ok((progress(3, &[]), Began::AtBirth)));
}

#[test]
fn a_done_set_of_another_transaction_counts_for_nothing() {
    let done = done_node(10, &[12..15], id(1));
    let found = Found { cursor: node("10", 6), done: node(&done, 5), birth: None };
    assert_eq!(decide(&found, Partition(0), &log(0, 50)), Ok((progress(10, &[]), Began::AtCursor)));
}

#[test]
fn a_foreign_cursor_over_a_topic_created_anew_is_still_found_out() {
    let done = done_node(10, &[12..15], id(2));
    let found = Found { cursor: node("10", 6), done: node(&done, 5), birth: None };
    assert_eq!(decide(&found, Partition(0), &log(2, 50)), Ok((progress(2, &[]), Began::TopicRecreated { abandoned: Offset(10) })));
}

#[test]
fn a_stuck_head_with_a_done_set_above_it_does_not_outlive_its_topic() {
    let done = done_node(10, &[11..40], id(2));
    let found = Found { cursor: node("10", 5), done: node(&done, 5), birth: None };
    assert_eq!(decide(&found, Partition(0), &log(0, 50)), Ok((progress(0, &[]), Began::TopicRecreated { abandoned: Offset(10) })));
}

#[test]
fn a_cursor_of_unknown_topic_is_taken_to_be_of_this_one() {
    for done in [None, node("garbage", 5)] {
        let found = Found { cursor: node("10", 5), done, birth: None };
        assert_eq!(decide(&found, Partition(0), &log(0, 50)), Ok((progress(10, &[]), Began::AtCursor)));
    }
}

#[test]
fn a_done_set_of_unknown_topic_counts_only_where_the_queue_has_no_ids() {
    let done = done_node(10, &[12..15], None);
    let found = Found { cursor: node("10", 5), done: node(&done, 5), birth: None };
    assert_eq!(decide(&found, Partition(0), &log(0, 50)), Ok((progress(10, &[]), Began::AtCursor)));
    let without_ids = Log { topic_id: None, ..log(0, 50) };
    assert_eq!(decide(&found, Partition(0), &without_ids), Ok((progress(10, &[12..15]), Began::AtCursor)));
}

#[test]
fn retention_below_the_cursor_skips_on_record_and_keeps_what_is_done_above() {
    assert_eq!(of_pair(10, &[12..15, 30..31], &log(20, 50)), (progress(20, &[30..31]), Began::BelowFirst { skipped: 7 }));
    assert_eq!(of_pair(10, &[12..25, 30..31], &log(20, 50)), (progress(25, &[30..31]), Began::BelowFirst { skipped: 2 }));
    assert_eq!(of_pair(10, &[], &log(70, 70)), (progress(70, &[]), Began::BelowFirst { skipped: 60 }));
}

#[test]
fn a_cursor_past_the_end_of_the_same_topic_goes_to_the_end() {
    assert_eq!(of_pair(60, &[70..80], &log(0, 50)), (progress(50, &[]), Began::LogTruncated { from: Offset(80) }));
    assert_eq!(of_pair(50, &[], &log(0, 50)), (progress(50, &[]), Began::AtCursor));
}

/// Found by the model test: a replay to the end that there is now, before a claim by the end of before.
#[test]
fn an_end_that_was_read_before_the_cursor_was_written_truncates_nothing() {
    let found = Found { cursor: node("60", 5), ..Found::default() };
    assert_eq!(decide(&found, Partition(0), &log(0, 50)), Err(Refusal::PastEnd(Offset(60))));
    let again = Log { past_end: Some(Offset(60)), ..log(0, 60) };
    assert_eq!(decide(&found, Partition(0), &again), Ok((progress(60, &[]), Began::AtCursor)));
    let by_another = Log { past_end: Some(Offset(70)), ..log(0, 50) };
    assert_eq!(decide(&found, Partition(0), &by_another), Err(Refusal::PastEnd(Offset(60))), "what stands is not what was seen");
}

#[test]
fn no_record_yet_to_be_written_is_taken_for_done() {
    let (truncated, began) = of_pair(10, &[40..60], &log(0, 50));
    assert_eq!((truncated, began), (progress(10, &[40..50]), Began::LogTruncated { from: Offset(60) }));
}

#[test]
fn attempts_are_taken_up_with_the_pair_that_they_were_stored_with() {
    let tries = Tries::of([(Offset(9), 1), (Offset(11), 2), (Offset(12), 3), (Offset(60), 4)]);
    let before = Progress { tries, ..progress(10, &[12..15]) };
    let header = Header { writer: Writer { boot: Uuid::nil(), number: 1 }, topic_id: id(1), replayed_at: None };
    let done = node::encode(&header, &before);
    let decided = |mzxid, log: &Log| {
        decide(&Found { cursor: node("10", mzxid), done: node(&done, 5), birth: None }, Partition(0), log).unwrap().0.tries
    };
    assert_eq!(decided(5, &log(0, 50)), Tries::of([(Offset(11), 2)]), "of what is in the log and not done");
    assert!(decided(6, &log(0, 50)).is_empty(), "somebody else wrote the cursor");
    assert!(decided(5, &Log { topic_id: id(2), ..log(0, 50) }).is_empty());
}

#[test]
fn runs_that_begin_at_the_cursor_move_it() {
    assert_eq!(of_pair(10, &[10..15, 20..21], &log(0, 50)), (progress(15, &[20..21]), Began::AtCursor));
}

#[test]
fn the_pair_that_stands_is_read_with_the_done_set_only_if_it_counts() {
    let done = done_node(10, &[12..15], id(1));
    let found = Found { cursor: node("10", 5), done: node(&done, 5), birth: None };
    assert_eq!(pair(&found), Ok(Some(progress(10, &[12..15]))));
    assert_eq!(pair(&Found { cursor: node("10", 6), ..found }), Ok(Some(progress(10, &[]))));
    assert_eq!(pair(&Found { cursor: None, ..found }), Ok(None));
    assert_eq!(pair(&Found { cursor: node("x", 5), ..found }), Err(Refusal::UnreadableCursor("x".into())));
}

proptest! {
    /// No record of the log is passed over unless it was done, below the cursor, or retention took it.
    #[test]
    fn what_was_not_done_is_delivered(
        cursor in 0u64..60, lengths in prop::collection::vec((1u64..6, 1u64..6), 0..6), first in 0u64..60, length in 0u64..60,
    ) {
        let mut end = cursor;
        let runs: Vec<_> = lengths.into_iter().map(|(gap, length)| { let start = end + gap; end = start + length; start..end }).collect();
        let before = set(&runs);
        let log = log(first, first + length);
        let (progress, _) = of_pair(cursor, &runs, &log);
        prop_assert!((log.first..=log.end).contains(&progress.cursor));
        for offset in (first..first + length).map(Offset) {
            let done = offset < progress.cursor || progress.done.contains(offset);
            prop_assert_eq!(done, offset.0 < cursor || before.contains(offset), "{:?}", offset);
        }
        prop_assert!(progress.done.runs().iter().all(|run| run.start > progress.cursor.0 && run.end <= log.end.0));
    }
}

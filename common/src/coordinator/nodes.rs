//! Whatever lies in a node: read as it was written, or refused. Nodes are written by other versions, other tools and hands.
#![allow(clippy::unwrap_used)]

use fuzz::{config, near, near_text};
use proptest::prelude::*;

use super::done::node::{self, MAX_BYTES};
use super::done::runs;
use super::{Birth, Control, DoneSet, Progress, cursor};
use crate::ids::Offset;

const CURSORS: [&str; 4] = ["0", "17", "007", "9223372036854775807"];
const DONE: [&str; 3] = [
    "{\"v\":1,\"w\":\"00000000-0000-0000-0000-000000000007.12\",\"topic_id\":\"00000000-0000-0000-0000-000000000009\"}\nAgE=",
    "{\"v\":1,\"w\":\"6f1b5d3a-3a0e-4a51-9d8e-2f3f4c5b6a79.4\",\"replayed_at\":1700000000000}\nAQEBAQEBgAEB",
    "{\"v\":1,\"w\":\"00000000-0000-0000-0000-000000000007.12\",\"tries\":{\"17\":3}}",
];
const RUNS: [&str; 5] = ["", "AgE=", "AQEBAQEBgAEB", "//////////8BAQ==", "gICAgICAgICAAQE="];
const CONTROLS: [&str; 2] = [r#"{"paused":true,"replays":["a","b:c"]}"#, r#"{"paused":false,"replays":[]}"#];
const BIRTHS: [&str; 2] =
    [r#"{"topic_id":"00000000-0000-0000-0000-000000000009","start":[0,17,18446744073709551615]}"#, r#"{"topic_id":null,"start":[]}"#];
const WORDS: [&str; 16] = [
    "{",
    "}",
    "\"",
    ",",
    ":",
    "\n",
    "\0",
    "-",
    "+",
    ".",
    "=",
    "AA",
    "\"v\":2",
    "null",
    "18446744073709551616",
    "00000000-0000-0000-0000-000000000001",
];

/// The done set that is as large as its bound lets it be.
fn largest() -> Vec<u8> {
    let done = DoneSet::from_runs((0..60_000).map(|n| n * 300 + 1..n * 300 + 2).collect()).unwrap();
    let (header, _) = node::decode(DONE[0].as_bytes(), Offset(0)).unwrap();
    node::encode(&header, &Progress { done, ..Progress::default() }).into_bytes()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_cursor_is_a_number_written_in_digits_or_is_shown_cut(node in near(CURSORS.map(|text| text.as_bytes().to_vec()).to_vec(), &WORDS)) {
        match cursor::decode(&node) {
            Ok(offset) => {
                let written = cursor::encode(offset);
                prop_assert_eq!(written.trim_start_matches('0'), str::from_utf8(&node).unwrap().trim_start_matches('0'));
                prop_assert!(offset.0 <= i64::MAX as u64, "old tools read it as a signed number");
            }
            Err(shown) => prop_assert!(shown.chars().count() <= 65),
        }
    }

    #[test]
    fn a_done_node_that_is_read_is_written_back_the_same(
        node in near(DONE.iter().map(|text| text.as_bytes().to_vec()).chain([largest()]).collect(), &WORDS),
        from in prop_oneof![0_u64..20, any::<u64>()],
    ) {
        match node::decode(&node, Offset(from)) {
            Ok((header, progress)) => {
                prop_assert!(node.len() <= MAX_BYTES && progress.done.runs().len() <= node.len());
                prop_assert!(progress.done.runs().iter().all(|run| run.start >= from), "above its cursor");
                let again = node::encode(&header, &progress);
                prop_assert_eq!(node::decode(again.as_bytes(), Offset(from)), Ok((header, progress)));
                prop_assert_eq!(node::header(&node), Ok(header));
            }
            Err(why) => prop_assert!(!why.to_string().is_empty()),
        }
    }

    /// One set has one text, so that nobody takes two of them for different ones.
    #[test]
    fn runs_that_are_read_have_no_other_text(text in near_text(&RUNS, &WORDS), from in prop_oneof![0_u64..20, any::<u64>()]) {
        if let Ok(done) = runs::decode(&text, Offset(from)) {
            prop_assert_eq!(runs::encode(&done, Offset(from), text.len().next_multiple_of(4)), text);
        }
    }

    #[test]
    fn a_control_and_a_birth_that_are_read_are_written_back_the_same(
        control in near_text(&CONTROLS, &WORDS),
        birth in near_text(&BIRTHS, &WORDS),
    ) {
        if let Ok(control) = serde_json::from_str::<Control>(&control) {
            prop_assert_eq!(serde_json::from_str::<Control>(&serde_json::to_string(&control).unwrap()).unwrap(), control);
        }
        if let Ok(birth) = serde_json::from_str::<Birth>(&birth) {
            prop_assert_eq!(serde_json::from_str::<Birth>(&serde_json::to_string(&birth).unwrap()).unwrap(), birth);
        }
    }
}

//! The node that stands beside a cursor: who wrote the pair, of which topic, and the done set.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Tries, runs};
use crate::coordinator::Progress;
use crate::ids::{Offset, TopicId};
use crate::record::TimestampMs;

/// Of the whole node.
pub const MAX_BYTES: usize = 64 * 1024;

const VERSION: u32 = 1;

/// One write of a pair: the life of the process, and its number in it. An owner knows its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer {
    pub boot: Uuid,
    pub number: u64,
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.boot, self.number)
    }
}

impl FromStr for Writer {
    type Err = NodeError;

    fn from_str(text: &str) -> Result<Self, NodeError> {
        let (boot, number) = text.split_once('.').ok_or(NodeError::Header)?;
        Ok(Self { boot: boot.parse().map_err(|_| NodeError::Header)?, number: number.parse().map_err(|_| NodeError::Header)? })
    }
}

/// The first line. It says of which topic the pair is, whether or not the runs can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub writer: Writer,
    pub topic_id: Option<TopicId>,
    /// When a replay last moved the cursor.
    pub replayed_at: Option<TimestampMs>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u32,
    w: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic_id: Option<TopicId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replayed_at: Option<TimestampMs>,
    #[serde(default, skip_serializing_if = "Tries::is_empty")]
    tries: Tries,
}

/// Why a node cannot be read. It then counts as empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    #[error("it has more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("its first line is not the JSON header")]
    Header,
    #[error("it is of version {0}, and only {VERSION} is understood")]
    Version(u32),
    #[error(transparent)]
    Runs(#[from] runs::RunsError),
}

/// At most [`MAX_BYTES`]; the highest runs are left out where they do not fit.
pub fn encode(header: &Header, progress: &Progress) -> String {
    let Header { writer, topic_id, replayed_at } = *header;
    let wire = Wire { v: VERSION, w: writer.to_string(), topic_id, replayed_at, tries: progress.tries.clone() };
    let mut text = serde_json::to_string(&wire).expect("texts and numbers are always JSON");
    text.push('\n');
    text.push_str(&runs::encode(&progress.done, progress.cursor, MAX_BYTES - text.len()));
    text
}

/// The header alone, for its topic id.
pub fn header(node: &[u8]) -> Result<Header, NodeError> {
    split(node).map(|(header, ..)| header)
}

/// The header, and the progress whose cursor is `cursor`.
pub fn decode(node: &[u8], cursor: Offset) -> Result<(Header, Progress), NodeError> {
    let (header, tries, text) = split(node)?;
    Ok((header, Progress { cursor, done: runs::decode(text, cursor)?, tries }))
}

fn split(node: &[u8]) -> Result<(Header, Tries, &str), NodeError> {
    if node.len() > MAX_BYTES {
        return Err(NodeError::TooLarge);
    }
    let text = str::from_utf8(node).map_err(|_| NodeError::Header)?;
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    let Wire { v, w, topic_id, replayed_at, tries } = serde_json::from_str(first).map_err(|_| NodeError::Header)?;
    if v != VERSION {
        return Err(NodeError::Version(v));
    }
    Ok((Header { writer: w.parse()?, topic_id, replayed_at }, tries.bounded(), second))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::DoneSet;
    use super::*;

    fn above(cursor: u64, done: DoneSet) -> Progress {
        Progress { cursor: Offset(cursor), done, tries: Tries::default() }
    }

    fn sample() -> Header {
        Header { writer: Writer { boot: Uuid::from_u128(7), number: 12 }, topic_id: Some(TopicId(Uuid::from_u128(9))), replayed_at: None }
    }

    #[test]
    fn a_node_is_one_line_of_json_and_one_of_base64() {
        let done = DoneSet::from_runs(vec![12..13]).unwrap();
        let node = encode(&sample(), &above(10, done.clone()));
        let w = "00000000-0000-0000-0000-000000000007.12";
        assert_eq!(node, format!("{{\"v\":1,\"w\":\"{w}\",\"topic_id\":\"00000000-0000-0000-0000-000000000009\"}}\nAgE="));
        assert_eq!(decode(node.as_bytes(), Offset(10)), Ok((sample(), above(10, done))));
    }

    #[test]
    fn attempts_of_what_is_not_done_stand_in_the_header() {
        let progress = Progress { tries: Tries::of([(Offset(10), 3), (Offset(14), 1)]), ..above(10, DoneSet::default()) };
        let node = encode(&sample(), &progress);
        assert!(node.ends_with("\"tries\":{\"10\":3,\"14\":1}}\n"), "{node}");
        assert_eq!(decode(node.as_bytes(), Offset(10)), Ok((sample(), progress)));
    }

    #[test]
    fn a_header_stands_where_the_runs_cannot_be_read() {
        let node = encode(&sample(), &Progress::default()) + "garbage!";
        assert!(matches!(decode(node.as_bytes(), Offset(0)), Err(NodeError::Runs(_))));
        assert_eq!(header(node.as_bytes()), Ok(sample()));
    }

    #[test]
    fn fields_of_later_versions_are_passed_over_but_another_version_is_not_guessed() {
        let later = r#"{"v":1,"w":"00000000-0000-0000-0000-000000000007.12","tries":{"17":3}}"#;
        assert_eq!(header(later.as_bytes()).unwrap().topic_id, None);
        assert_eq!(header(later.replace("\"v\":1", "\"v\":2").as_bytes()), Err(NodeError::Version(2)));
    }

    #[test]
    fn however_many_runs_a_node_stays_within_its_bound_and_readable() {
        let done = DoneSet::from_runs((0..200_000).map(|n| n * 1000 + 1..n * 1000 + 500).collect()).unwrap();
        let node = encode(&sample(), &above(0, done.clone()));
        assert!((MAX_BYTES - 16..=MAX_BYTES).contains(&node.len()), "{}", node.len());
        let (_, kept) = decode(node.as_bytes(), Offset(0)).unwrap();
        assert_eq!(kept.done.runs(), &done.runs()[..kept.done.runs().len()]);
    }

    #[test]
    fn too_large_a_node_is_not_even_parsed() {
        assert_eq!(header(&vec![b' '; MAX_BYTES + 1]), Err(NodeError::TooLarge));
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_and_never_a_panic(node in prop::collection::vec(any::<u8>(), 0..200), cursor: u64, w in ".{0,50}") {
            prop_assert!(decode(&node, Offset(cursor)).is_err());
            let _ = decode(format!("{{\"v\":1,\"w\":{w:?}}}\n{w}").as_bytes(), Offset(cursor));
        }
    }
}

//! Where everything lies in the keyspace, and how a pair reads. Names end with a NUL, which none
//! contains.

use super::super::{Progress, claim, cursor, done::node};
use crate::ids::{GroupName, GroupPartition, Partition, Topic};

/// The number of the last epoch, as eight bytes.
pub(super) const EPOCH: &[u8] = b"epoch";

fn key(kind: &str, names: &[&str]) -> Vec<u8> {
    let mut key = Vec::with_capacity(128);
    for name in std::iter::once(&kind).chain(names) {
        key.extend_from_slice(name.as_bytes());
        key.push(0);
    }
    key
}

pub(super) fn control(group: &GroupName) -> Vec<u8> {
    key("control", &[group.as_str()])
}

pub(super) fn birth(group: &GroupName, topic: &Topic) -> Vec<u8> {
    key("birth", &[group.as_str(), topic.as_str()])
}

pub(super) fn pairs(group: &GroupName, topic: &Topic) -> Vec<u8> {
    key("pair", &[group.as_str(), topic.as_str()])
}

pub(super) fn pair(at: &GroupPartition) -> Vec<u8> {
    let mut key = pairs(&at.group, &at.topic);
    key.extend_from_slice(&at.partition.0.to_be_bytes());
    key
}

/// Of a key with the prefix [`pairs`].
pub(super) fn partition_of(pair: &[u8]) -> Option<Partition> {
    pair.last_chunk().map(|bytes| Partition(u32::from_be_bytes(*bytes)))
}

/// Cursor and done node are one value, the cursor first, on a line of its own: so they cannot be
/// written apart.
pub(super) fn encode_pair(progress: &Progress, header: &node::Header) -> Vec<u8> {
    let mut value = cursor::encode(progress.cursor);
    value.push('\n');
    value.push_str(&node::encode(header, progress));
    value.into_bytes()
}

pub(super) fn decode_pair(value: &[u8]) -> claim::Found<'_> {
    let end = memchr::memchr(b'\n', value);
    let node = |text| Some(claim::Node { text, mzxid: 0 });
    match end {
        Some(end) => claim::Found { cursor: node(&value[..end]), done: node(&value[end + 1..]), birth: None },
        None => claim::Found { cursor: node(value), done: None, birth: None },
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{DoneSet, Tries};
    use super::*;
    use crate::ids::Offset;

    #[test]
    fn no_name_reaches_into_anothers_keys() {
        let at = |group: &str, topic: &str, partition| GroupPartition {
            group: GroupName::new(group).unwrap(),
            topic: Topic::new(topic).unwrap(),
            partition: Partition(partition),
        };
        let prefix = pairs(&at("g", "t", 0).group, &at("g", "t", 0).topic);
        assert!(pair(&at("g", "t", 258)).starts_with(&prefix));
        assert_eq!(partition_of(&pair(&at("g", "t", 258))), Some(Partition(258)));
        for other in [at("g", "t2", 0), at("g2", "t", 0), at("gt", "t", 0)] {
            assert!(!pair(&other).starts_with(&prefix), "{other}");
        }
    }

    #[test]
    fn a_pair_is_read_as_it_was_written_and_a_bare_cursor_too() {
        let header = node::Header { writer: node::Writer { boot: uuid::Uuid::nil(), number: 1 }, topic_id: None, replayed_at: Some(5) };
        let progress =
            Progress { cursor: Offset(7), done: DoneSet::from_runs(vec![9..12, 20..21]).unwrap(), tries: Tries::of([(Offset(8), 2)]) };
        let value = encode_pair(&progress, &header);
        assert_eq!(claim::pair(&decode_pair(&value)), Ok(Some(progress)));
        let bare = Progress { cursor: Offset(7), ..Progress::default() };
        assert_eq!(claim::pair(&decode_pair(b"7")), Ok(Some(bare)));
    }
}

//! Names and numbers that must not be mixed up, each in a type of its own.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A topic name that Kafka would accept: 1 to 249 of `[A-Za-z0-9._-]`, neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
pub struct Topic(Arc<str>);

/// Why a text is no topic name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    #[error("a topic name is empty")]
    Empty,
    #[error("a topic name has {0} characters, more than Kafka's 249")]
    TooLong(usize),
    #[error("{0:?} is not a legal topic name")]
    Reserved(String),
    #[error("a topic name contains {0:?}; legal are A-Z a-z 0-9 . _ -")]
    Character(char),
}

impl Topic {
    pub const MAX_CHARS: usize = 249;

    /// Checks the name by Kafka's rules (`org.apache.kafka.common.internals.Topic`).
    pub fn new(name: &str) -> Result<Self, TopicError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        match name {
            "" => Err(TopicError::Empty),
            "." | ".." => Err(TopicError::Reserved(name.to_owned())),
            _ => match name.chars().find(|c| !legal(*c)) {
                Some(c) => Err(TopicError::Character(c)),
                None if name.len() > Self::MAX_CHARS => Err(TopicError::TooLong(name.len())),
                None => Ok(Self(name.into())),
            },
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Topic {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A consumer group's name. It becomes a path element in ZooKeeper, so `/`, `.`, `..`, NUL,
/// nothing at all and more than 255 bytes are refused.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
pub struct GroupName(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a legal group name: 1 to 255 bytes without '/' and NUL, and neither \".\" nor \"..\"")]
pub struct GroupNameError(String);

impl GroupName {
    pub fn new(name: &str) -> Result<Self, GroupNameError> {
        let illegal = matches!(name, "" | "." | "..") || name.len() > 255 || name.contains(['/', '\0']);
        if illegal { Err(GroupNameError(name.to_owned())) } else { Ok(Self(name.into())) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A partition's number within its topic, from 0.
    Partition(u32)
);
number!(
    /// A record's place in its partition, from 0. A cursor is the offset to deliver *next*.
    Offset(u64)
);
number!(
    /// One ownership of a partition, or one replay of it. Strictly grows per partition.
    Epoch(u64)
);

impl Offset {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Tells a topic from another of the same name that was created later.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TopicId(pub uuid::Uuid);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One partition of one topic as one group sees it: the unit that is claimed, committed and released.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct GroupPartition {
    pub group: GroupName,
    pub topic: Topic,
    pub partition: Partition,
}

impl fmt::Display for GroupPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.group, self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_follow_kafkas_rules() {
        assert!(Topic::new("orders.v1_eu-west").is_ok());
        assert!(Topic::new(&"a".repeat(249)).is_ok());
        assert_eq!(Topic::new(&"a".repeat(250)), Err(TopicError::TooLong(250)));
        assert_eq!(Topic::new(""), Err(TopicError::Empty));
        assert_eq!(Topic::new("a/b"), Err(TopicError::Character('/')));
        assert_eq!(Topic::new("é"), Err(TopicError::Character('é')));
        assert!(matches!(Topic::new(".."), Err(TopicError::Reserved(_))));
    }

    #[test]
    fn group_names_are_path_elements() {
        assert!(GroupName::new("5d41402abc4b2a76b9719d911017c592").is_ok());
        for bad in ["", ".", "..", "a/b", "a\0b", &"g".repeat(256)] {
            assert!(GroupName::new(bad).is_err(), "{bad:?}");
        }
    }
}

//! What operators were told is done: from the answer on, each is a promise.

use std::time::Instant;

#[derive(Debug, Clone)]
pub(super) struct Replay {
    pub(super) group: &'static str,
    /// It was written between the first time that it was asked for and its answer.
    pub(super) asked: Instant,
    pub(super) answered: Instant,
    /// `None`: nobody says whether it was done or where to.
    pub(super) moved: Option<Vec<Moved>>,
}

/// A cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) topic: String,
    pub(super) partition: u32,
    /// `None`: there was none.
    pub(super) old: Option<u64>,
    pub(super) new: u64,
}

impl Replay {
    pub(super) fn of(&self, topic: &str, partition: u32) -> Option<&Moved> {
        self.moved.iter().flatten().find(|moved| moved.topic == topic && moved.partition == partition)
    }
}

/// From its answer to the moment when the resume was asked for.
#[derive(Debug, Clone)]
pub(super) struct Pause {
    pub(super) group: &'static str,
    pub(super) answered: Instant,
    pub(super) resumed: Instant,
}

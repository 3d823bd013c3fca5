//! What an operator can see of a partition.

use tokio::time::Instant;

use crate::event::Failure;
use crate::ids::Offset;
use crate::ports::{Progress, SourceError};

/// For operators.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub progress: Progress,
    /// The next offset that would be read.
    pub position: Offset,
    pub in_flight: usize,
    pub unfinished: usize,
    pub unfinished_bytes: usize,
    /// Keys with anything unfinished.
    pub keys: usize,
    /// Unfinished events with a failed attempt.
    pub pending_retries: usize,
    pub done_above_cursor: u64,
    /// Finished events whose progress is not stored yet.
    pub unstored_completions: u64,
    /// Why the last commit was not stored, if it was not.
    pub commit_error: Option<String>,
    pub oldest: Option<Oldest>,
    /// Why nothing more is read or attempted, if so; the blocking offset is `oldest`.
    pub blocked: Option<Blocked>,
}

/// The unfinished event that holds the cursor.
#[derive(Clone, Debug)]
pub struct Oldest {
    pub offset: Offset,
    /// When it was admitted.
    pub since: Instant,
    pub attempts: u32,
    pub last_failure: Option<Failure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    MaxInFlightRecords,
    MaxInFlightBytes,
    Budget,
    UnstoredCompletions,
}

impl Blocked {
    /// The word of configuration and documentation for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxInFlightRecords => "max_in_flight_records",
            Self::MaxInFlightBytes => "max_in_flight_bytes",
            Self::Budget => "max_buffered_bytes",
            Self::UnstoredCompletions => "unstored_completions",
        }
    }
}

/// Why a loop stopped by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing more is read. What was admitted goes on until the partition is released.
    Source(SourceError),
    /// Attempts were cut, and nothing more is written.
    OwnershipOver(String),
}

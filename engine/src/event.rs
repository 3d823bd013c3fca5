//! An event, what may come of processing it, and what is said when it is given up.

use bytes::Bytes;
use tokio::time::Instant;

use crate::ids::{Epoch, Offset};

/// A record as the engine sees it.
#[derive(Debug)]
pub struct Event<P> {
    pub offset: Offset,
    /// Events of one key are processed one at a time, in offset order. `None`: no order.
    pub key: Option<Bytes>,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub time_ms: i64,
    pub event_type: EventType,
    /// What it counts for in the bounds on memory, in bytes.
    pub size_bytes: usize,
    pub payload: P,
}

/// An event type as a number: its place in [`EventTypes`](crate::options::EventTypes), or [`EventType::OTHER`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventType(pub u16);

impl EventType {
    /// Every type that the configuration does not list.
    pub const OTHER: Self = Self(u16::MAX);
}

/// Which attempt this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// Over all rounds, from 0.
    pub number: u32,
    /// From 0.
    pub round: u32,
    pub epoch: Epoch,
}

/// What came of one attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Done,
    /// A failed attempt; the next no earlier than `not_before`, if the round has one left.
    Retry {
        not_before: Option<Instant>,
        failure: Failure,
    },
    /// The round is over, whatever attempts it had left.
    Failed(Failure),
    /// The attempt was not made, or was stopped from outside: as if it had not begun. It is made
    /// again once the partition is allowed to work.
    Cut,
}

/// Why an attempt failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// From a small fixed enumeration: it becomes a metric label.
    pub reason: &'static str,
    /// A number the processor may attach, such as a status.
    pub code: Option<u16>,
    /// For people; bounded by the processor.
    pub detail: String,
}

/// An event that its round used up, on its way to bypass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenUp {
    pub failure: Failure,
    /// Attempts made, over all rounds.
    pub attempts: u32,
    pub first_attempt: Instant,
    pub last_attempt: Instant,
}

impl Failure {
    /// The reason of an event whose round took longer than the processing timeout.
    pub const PROCESSING_TIMEOUT: &'static str = "processing_timeout";
    /// The reason of an attempt whose processor panicked.
    pub const PANIC: &'static str = "panic";
    /// The reason shown of an event that is given up and cannot be bypassed yet.
    pub const BYPASS: &'static str = "bypass";

    pub(crate) fn processing_timeout(last: Option<&Self>) -> Self {
        let detail = match last {
            Some(last) if last.reason != Self::PROCESSING_TIMEOUT => format!("the round took too long; before: {}", last.detail),
            _ => "the round took too long".into(),
        };
        Self { reason: Self::PROCESSING_TIMEOUT, code: last.and_then(|last| last.code), detail }
    }

    pub(crate) fn panic() -> Self {
        Self { reason: Self::PANIC, code: None, detail: "the processor panicked".into() }
    }

    pub(crate) fn bypass(error: &str, given_up_for: &Self) -> Self {
        let Self { reason, code, detail } = given_up_for;
        Self { reason: Self::BYPASS, code: *code, detail: format!("{error}; given up for {reason}: {detail}") }
    }

    pub(crate) fn unknown() -> Self {
        Self { reason: "unknown", code: None, detail: String::new() }
    }
}

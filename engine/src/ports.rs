//! What a user of the engine plugs in.

use std::future::{Future, ready};
use std::ops::Range;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::event::{Attempt, Event, GivenUp, Outcome};
use crate::ids::Offset;
use crate::options::EventTypes;

/// Yields the records of one partition, in offset order.
pub trait Source: Send + 'static {
    type Record: Send + 'static;

    /// Waits until there is something: records, or a `next_offset` that has moved. At least one
    /// record however large, else at most about `max_bytes`. Must be cancel safe: a dropped call
    /// loses nothing.
    fn next(&mut self, max_bytes: usize) -> impl Future<Output = Result<Batch<Self::Record>, SourceError>> + Send;
}

#[derive(Debug)]
pub struct Batch<R> {
    pub records: Vec<R>,
    /// The position after everything that was fetched, whether it yielded a record or not.
    pub next_offset: Offset,
}

/// A source that cannot go on; the partition stops and says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("{0}")]
    Failed(String),
    /// There is nothing to be read any more, on purpose: no fault.
    #[error("{0}")]
    Gone(String),
}

/// Makes an event of a record.
pub trait Decoder: Send + Sync + 'static {
    type Record: Send + 'static;
    type Payload: Send + Sync + 'static;

    fn decode(&self, record: Self::Record, types: &EventTypes) -> Decoded<Self::Payload>;
}

#[derive(Debug)]
pub enum Decoded<P> {
    Event(Event<P>),
    /// Passed over, and counted under this reason (a small fixed enumeration).
    Skip {
        offset: Offset,
        reason: &'static str,
    },
}

/// Handles events. Futures may be dropped at any await point.
pub trait Processor<P>: Send + Sync + 'static {
    fn process(&self, event: &Event<P>, attempt: Attempt) -> impl Future<Output = Outcome> + Send;

    /// Records that an event is given up. Called again, with backoff, until it succeeds: the
    /// cursor does not pass the event before. The text says why it did not.
    fn bypass(&self, event: &Event<P>, given_up: &GivenUp) -> impl Future<Output = Result<(), String>> + Send {
        let _ = (event, given_up);
        ready(Ok(()))
    }
}

/// Whether the processor may be asked at all: looked at immediately before every attempt and bypass,
/// and before anything counts as failed. What the owner tells a partition loop takes a moment longer.
pub trait Gate: Send + 'static {
    /// Since when it is shut; `None` while it is open. Whoever opens it tells the partition's handle
    /// a permission afterwards: nobody looks before.
    fn shut_since(&self) -> Option<Instant>;
}

/// Always open.
impl Gate for () {
    fn shut_since(&self) -> Option<Instant> {
        None
    }
}

/// Stores how far a partition has come.
pub trait CursorSink: Send + Sync + 'static {
    /// Called again only after it has answered. It must answer in bounded time: a release waits
    /// for it.
    fn commit(&self, progress: Progress) -> impl Future<Output = Result<(), CommitError>> + Send;

    /// The shortest time from one write to the next, where more are written than may be. Asked whenever
    /// a write is answered; what is done meanwhile waits, within the bound on unstored completions.
    fn least_interval(&self) -> Duration {
        Duration::ZERO
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The next offset to process; everything below is finished.
    pub cursor: Offset,
    /// Ascending, disjoint runs of what is finished above it.
    pub done: Vec<Range<u64>>,
    /// Ascending, of the lowest at most [`MAX_TRIED_RECORDS`] that are not finished and have failed on
    /// their way to being bypassed: their attempts so far.
    pub tries: Vec<(Offset, u32)>,
}

/// More would make what is stored large, and each gets its turn.
pub const MAX_TRIED_RECORDS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Not stored; the engine commits again.
    #[error("not stored: {0}")]
    Again(String),
    /// This ownership is over: the engine stops the partition and writes nothing more.
    #[error("ownership is over: {0}")]
    Over(String),
}

/// Wall-clock time, for delays. A seam, so that tests can bend it.
pub trait WallClock: Send + Sync + 'static {
    fn now(&self) -> SystemTime;
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

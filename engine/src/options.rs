//! What a user chooses for one task.

use std::time::Duration;

use crate::event::EventType;

/// Everything that shapes a task. `Default` is what `contract.md` §3 says.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub order: Order,
    /// Attempts in flight, shared fairly by the partitions of the task. At least 1.
    pub worker_num: usize,
    /// Further attempts after the first, in one round.
    pub retry_times: u32,
    pub backoff: Backoff,
    pub on_failure: OnFailure,
    /// From the first attempt of a round; past it the round ends as failed.
    pub processing_timeout: Option<Duration>,
    /// Ready at event time + delay, at the latest `delay` after arrival.
    pub delay: Option<Duration>,
    /// Unfinished events per partition. At least 1.
    pub max_in_flight_records: usize,
    /// Their bytes per partition; one event is admitted whatever its size when nothing is unfinished.
    pub max_in_flight_bytes: usize,
    pub commit_interval: Duration,
    /// Completions not yet stored, per partition: at this bound no new attempt starts.
    pub max_unstored_completions: usize,
    pub event_types: EventTypes,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            order: Order::Key,
            worker_num: 16,
            retry_times: 0,
            backoff: Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(10) },
            on_failure: OnFailure::AnotherRound { sleep: Duration::from_secs(1) },
            processing_timeout: None,
            delay: None,
            max_in_flight_records: 10_000,
            max_in_flight_bytes: 16 << 20,
            commit_interval: Duration::from_secs(1),
            max_unstored_completions: 10_000,
            event_types: EventTypes::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Events of a key one at a time, in offset order.
    Key,
    /// One event at a time.
    Partition,
    None,
}

/// Doubling from `initial`, at most `max`, uniform in [half, whole].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub initial: Duration,
    pub max: Duration,
}

/// When a round is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Give the event up, on record, and go on.
    Bypass,
    /// Wait, then begin another round, for ever.
    AnotherRound { sleep: Duration },
}

/// The event types that a task knows by name, each with an optional limit on attempts in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTypes(Vec<(String, Option<usize>)>);

impl EventTypes {
    /// At most `u16::MAX - 1` types; limits are at least 1.
    pub fn new(types: Vec<(String, Option<usize>)>) -> Self {
        Self(types)
    }

    /// The number of a type's name; [`EventType::OTHER`] for one that is not listed.
    pub fn resolve(&self, name: &[u8]) -> EventType {
        let at = self.0.iter().position(|(listed, _)| listed.as_bytes() == name);
        at.and_then(|at| u16::try_from(at).ok()).map_or(EventType::OTHER, EventType)
    }

    pub fn name(&self, event_type: EventType) -> &str {
        self.0.get(usize::from(event_type.0)).map_or("other", |(name, _)| name)
    }

    pub fn limit(&self, event_type: EventType) -> Option<usize> {
        self.0.get(usize::from(event_type.0)).and_then(|(_, limit)| *limit)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

//! What a user chooses for one task.

use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

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

/// Beyond it, adding to the present time could overflow.
const LONGEST_WAIT: Duration = Duration::from_secs(10 * 365 * 86_400);

impl Options {
    /// The same with no duration over ten years.
    pub(crate) fn within_time(mut self) -> Self {
        let Backoff { initial, max } = self.backoff;
        self.backoff = Backoff { initial: initial.min(LONGEST_WAIT), max: max.min(LONGEST_WAIT) };
        if let OnFailure::AnotherRound { sleep } = &mut self.on_failure {
            *sleep = (*sleep).min(LONGEST_WAIT);
        }
        self.processing_timeout = self.processing_timeout.map(|timeout| timeout.min(LONGEST_WAIT));
        self.delay = self.delay.map(|delay| delay.min(LONGEST_WAIT));
        self.commit_interval = self.commit_interval.min(LONGEST_WAIT);
        self
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

/// The event types that a task knows by name, each with an optional limit on attempts in flight,
/// over all partitions of the task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTypes {
    listed: Vec<(String, Option<usize>)>,
    by_name: HashMap<Vec<u8>, u16, FixedState>,
}

impl EventTypes {
    /// At most `u16::MAX - 1` types, the rest count as other; limits are at least 1.
    pub fn new(types: Vec<(String, Option<usize>)>) -> Self {
        let mut listed = types;
        listed.truncate(usize::from(u16::MAX - 1));
        let by_name = (0..).zip(&listed).map(|(number, (name, _))| (name.as_bytes().to_vec(), number)).collect();
        Self { listed, by_name }
    }

    /// The number of a type's name; [`EventType::OTHER`] for one that is not listed.
    pub fn resolve(&self, name: &[u8]) -> EventType {
        self.by_name.get(name).map_or(EventType::OTHER, |number| EventType(*number))
    }

    pub fn name(&self, event_type: EventType) -> &str {
        self.listed.get(usize::from(event_type.0)).map_or("other", |(name, _)| name)
    }

    pub fn limit(&self, event_type: EventType) -> Option<usize> {
        self.listed.get(usize::from(event_type.0)).and_then(|(_, limit)| *limit)
    }

    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// The names, in the order of their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().map(|(name, _)| name.as_str())
    }

    /// The limits that there are.
    pub(crate) fn limits(&self) -> impl Iterator<Item = usize> {
        self.listed.iter().filter_map(|(_, limit)| limit.map(|limit| limit.max(1)))
    }

    /// By type: 0 if it has no limit, else which limit of [`EventTypes::limits`] it has, from 1.
    pub(crate) fn lanes(&self) -> Vec<usize> {
        let limited = self.listed.iter().map(|(_, limit)| usize::from(limit.is_some()));
        limited
            .scan(0, |count, limited| {
                Some({
                    *count += limited;
                    *count * limited
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_a_limit_have_a_lane_of_their_own() {
        let types = EventTypes::new(vec![("push".into(), None), ("fork".into(), Some(2)), ("star".into(), None), ("ping".into(), Some(0))]);
        assert_eq!(types.lanes(), [0, 1, 0, 2]);
        assert_eq!(types.limits().collect::<Vec<_>>(), [2, 1]);
        assert_eq!(types.resolve(b"star"), EventType(2));
        assert_eq!(types.name(types.resolve(b"fork")), "fork");
        assert_eq!(types.name(types.resolve(b"watch")), "other");
    }
}

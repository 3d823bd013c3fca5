//! Topics that come into being with their first message, in bounded numbers: whoever may write
//! could otherwise fill a cluster with them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;
use tracing::{info, warn};

use super::intake::{Intake, not_written};
use super::metrics::Creation;
use crate::ids::Topic;
use crate::queue::{NotWritten, ProduceError};

/// At once, after a while in which none were made.
const BURST_TOPICS: u32 = 100;
const ONE_MORE_EVERY: Duration = Duration::from_secs(1);
/// In the life of a process.
const MAX_TOPICS: u32 = 1_000;

/// How many topics may still be made.
pub(super) struct Creations(Mutex<Budget>);

struct Budget {
    now: u32,
    ever: u32,
    /// Until when `now` was counted up.
    counted: Instant,
}

impl Creations {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(Budget { now: BURST_TOPICS, ever: MAX_TOPICS, counted: now }))
    }

    fn take(&self, now: Instant) -> bool {
        let mut budget = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let more = now.duration_since(budget.counted).as_millis() / ONE_MORE_EVERY.as_millis();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        budget.counted += ONE_MORE_EVERY * more;
        budget.now = budget.now.saturating_add(more).min(BURST_TOPICS);
        let may = budget.now > 0 && budget.ever > 0;
        if may {
            budget.now -= 1;
            budget.ever -= 1;
        }
        may
    }
}

impl Intake {
    /// Makes a topic as the cluster makes them by default.
    pub(super) async fn create(&self, topic: &Topic) -> Result<(), ProduceError> {
        if !self.creations.take(Instant::now()) {
            self.site.metrics.creation(Creation::NotTried);
            let why = format!("topic {topic} does not exist, and as many topics were created as may be for now");
            return Err(not_written(NotWritten::TooManyTopics, &why));
        }
        match self.cluster.create(topic, None).await {
            Ok(Ok(())) => {
                info!(%topic, "a message came for a topic that did not exist; Kafka has created it");
                self.site.metrics.creation(Creation::Created);
                Ok(())
            }
            Ok(Err(RDKafkaErrorCode::TopicAlreadyExists)) => Ok(()),
            Ok(Err(code)) => {
                warn!(%topic, %code, "a message came for a topic that does not exist, and Kafka does not create it; the message is refused");
                self.site.metrics.creation(Creation::Refused);
                Err(refusal(topic, code))
            }
            Err(error) => Err(not_written(NotWritten::Unavailable, &error.to_string())),
        }
    }
}

fn refusal(topic: &Topic, code: RDKafkaErrorCode) -> ProduceError {
    let why = format!("topic {topic} does not exist, and Kafka does not create it: {code}");
    match code {
        // Such as a name that differs from another topic's by a dot alone.
        RDKafkaErrorCode::InvalidTopic | RDKafkaErrorCode::PolicyViolation => ProduceError::RecordRefused(why),
        _ => not_written(NotWritten::Unavailable, &why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_made_in_a_burst_then_one_by_one_and_not_for_ever() {
        let start = Instant::now();
        let creations = Creations::new(start);
        let made = |now| std::iter::from_fn(|| creations.take(now).then_some(())).count();
        assert_eq!(made(start), 100);
        assert_eq!(made(start + Duration::from_millis(2_500)), 2);
        assert_eq!(made(start + Duration::from_secs(3)), 1);
        let later = |minutes: u64| start + Duration::from_secs(minutes * 600);
        assert_eq!((1..20).map(|minutes| made(later(minutes))).sum::<usize>(), 1_000 - 103);
    }
}

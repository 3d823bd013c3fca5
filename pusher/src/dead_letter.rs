//! Where a record goes that its round used up: to the group's dead-letter topic, or into the log.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use common::ids::{GroupName, Topic};
use common::queue::{Ack, ProduceError, Queue};
use common::record::{Header, Message, Payload, header};
use engine::event::{Event, GivenUp};
use engine::ports::{SystemClock, WallClock};
use tokio::time::Instant;

use crate::decode::Delivered;

/// Of `mqgate-dlq-reason`.
const MAX_REASON_CHARS: usize = 256;

pub(crate) struct DeadLetters {
    group: GroupName,
    topic: Option<Topic>,
    queue: Arc<dyn Queue>,
    clock: SystemClock,
}

impl DeadLetters {
    pub(crate) fn new(group: GroupName, topic: Option<Topic>, queue: Arc<dyn Queue>) -> Self {
        Self { group, topic, queue, clock: SystemClock }
    }

    /// Done once the queue has acknowledged the dead letter. One that may have been written is
    /// written again: better twice than not at all.
    pub(crate) async fn bury(&self, event: &Event<Delivered>, given_up: &GivenUp) -> Result<(), String> {
        match &self.topic {
            Some(topic) => self.write(topic, event, given_up).await,
            None => {
                self.log(event, given_up);
                Ok(())
            }
        }
    }

    async fn write(&self, topic: &Topic, event: &Event<Delivered>, given_up: &GivenUp) -> Result<(), String> {
        let reasons = self.reasons(event, given_up);
        let written = match self.produce(topic, event, headers(event, &reasons, usize::MAX)).await {
            Err(ProduceError::TooLarge { limit, .. }) => {
                let stored = &event.payload.stored;
                let taken = stored.key.as_ref().map_or(0, Bytes::len) + stored.value.as_ref().map_or(0, Bytes::len);
                self.produce(topic, event, headers(event, &reasons, limit.saturating_sub(taken))).await
            }
            answered => answered,
        };
        written.map_err(|error| {
            let (origin, offset) = (&event.payload.origin, event.offset);
            format!(
                "group {}: topic {} partition {} offset {offset} is given up but not yet in dead-letter topic {topic}: {error}",
                self.group, origin.topic, origin.partition
            )
        })
    }

    async fn produce(&self, topic: &Topic, event: &Event<Delivered>, headers: Vec<Header>) -> Result<(), ProduceError> {
        let Payload { key, value, .. } = &event.payload.stored;
        let payload = Payload { key: key.clone(), value: value.clone(), headers };
        let message = Message { topic: topic.clone(), partition: None, timestamp: None, payload };
        self.queue.produce(message, Ack::All).await.map(|_| ())
    }

    /// What a dead letter says about itself. Times are milliseconds since 1970.
    fn reasons(&self, event: &Event<Delivered>, given_up: &GivenUp) -> Vec<Header> {
        let GivenUp { failure, attempts, first_attempt, last_attempt } = given_up;
        let origin = &event.payload.origin;
        let reason: String = format!("{}: {}", failure.reason, failure.detail).chars().take(MAX_REASON_CHARS).collect();
        let said = [
            ("mqgate-dlq-group", Some(self.group.to_string())),
            ("mqgate-dlq-topic", Some(origin.topic.to_string())),
            ("mqgate-dlq-partition", Some(origin.partition.to_string())),
            ("mqgate-dlq-offset", Some(event.offset.to_string())),
            ("mqgate-dlq-timestamp", Some(event.time_ms.to_string())),
            ("mqgate-dlq-reason", Some(reason)),
            ("mqgate-dlq-status", failure.code.map(|status| status.to_string())),
            ("mqgate-dlq-attempts", Some(attempts.to_string())),
            ("mqgate-dlq-first-attempt", Some(self.wall_ms(*first_attempt).to_string())),
            ("mqgate-dlq-last-attempt", Some(self.wall_ms(*last_attempt).to_string())),
        ];
        said.into_iter().filter_map(|(name, value)| Some(Header { name: ByteString::from_static(name), value: value?.into() })).collect()
    }

    fn wall_ms(&self, at: Instant) -> u128 {
        let then = self.clock.now().checked_sub(at.elapsed());
        then.and_then(|then| then.duration_since(std::time::UNIX_EPOCH).ok()).map_or(0, |since| since.as_millis())
    }

    fn log(&self, event: &Event<Delivered>, given_up: &GivenUp) {
        let origin = &event.payload.origin;
        tracing::warn!(
            group = %self.group,
            topic = %origin.topic,
            partition = %origin.partition,
            offset = %event.offset,
            key = event.key.as_ref().map(|key| key.escape_ascii().take(MAX_REASON_CHARS).map(char::from).collect::<String>()),
            attempts = given_up.attempts,
            status = given_up.failure.code,
            reason = given_up.failure.reason,
            detail = given_up.failure.detail,
            "given up and passed over, since bypass_failed is true; it stays in its topic until retention takes it. \
             Set dead_letter_topic to keep such records apart"
        );
    }
}

/// The dead letter's own headers, then the record's, as many as fit into `max_bytes`. Those of an
/// earlier dead letter are replaced.
fn headers(event: &Event<Delivered>, reasons: &[Header], max_bytes: usize) -> Vec<Header> {
    let kept = event.payload.stored.headers.iter().filter(|kept| !kept.name.starts_with(header::DLQ_PREFIX));
    let mut left = max_bytes;
    let fits = |header: &&Header| match left.checked_sub(header.name.len() + header.value.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    reasons.iter().chain(kept).filter(fits).cloned().collect()
}

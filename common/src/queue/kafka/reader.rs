//! Reading one partition.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode;
use tokio::time::timeout;
use tracing::warn;

use super::intake::Intake;
use super::native::{Taken, known_end};
use super::readers::{Returns, Seat};
use crate::ids::{Offset, Partition, Topic, TopicId};
use crate::queue::{Batch, QueueError, ReadError, Reader};
use crate::record::Record;

/// A wake-up can get lost in the client, and a topic can go.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Nothing came for so many looks although there are records ahead.
const STANDS_STILL_LOOKS: u32 = 10;
/// So many looks after which the cluster is asked whether there are, whatever the client says.
const ASK_LOOKS: u32 = 120;

pub(super) struct KafkaReader {
    /// `None` only while it is dropped.
    seat: Option<Seat>,
    returns: Returns,
    intake: Arc<Intake>,
    topic: Topic,
    partition: Partition,
    id: Option<TopicId>,
    /// Taken from the queue, not yet read.
    ready: VecDeque<Record>,
    ready_bytes: usize,
    /// After everything that was read.
    next: Offset,
    /// After everything that was taken.
    position: Offset,
    failed: Option<RDKafkaErrorCode>,
    /// Looks since something came.
    quiet_looks: u32,
}

/// What is read, and where it begins.
pub(super) struct Place {
    pub(super) topic: Topic,
    pub(super) partition: Partition,
    pub(super) id: Option<TopicId>,
    pub(super) from: Offset,
}

impl KafkaReader {
    pub(super) fn new(seat: Seat, returns: Returns, intake: Arc<Intake>, place: Place) -> Self {
        let Place { topic, partition, id, from } = place;
        Self {
            seat: Some(seat),
            returns,
            intake,
            topic,
            partition,
            id,
            ready: VecDeque::new(),
            ready_bytes: 0,
            next: from,
            position: from,
            failed: None,
            quiet_looks: 0,
        }
    }

    fn seat(&self) -> &Seat {
        self.seat.as_ref().expect("a reader has its seat until it is dropped")
    }

    /// Takes what lies in the queue; how much that was.
    fn take(&mut self) -> usize {
        let Self { seat, ready, ready_bytes, position, failed, .. } = self;
        let Some(seat) = seat else { return 0 };
        seat.records.take(|taken| match taken {
            // Left over from an assignment before this one.
            Taken::Record(record) if record.offset < *position => {}
            Taken::Record(record) => {
                *position = record.offset.next();
                *ready_bytes += record.payload.size_bytes();
                ready.push_back(record);
            }
            Taken::End(end) => *position = end.max(*position),
            Taken::Failed(code) => *failed = Some(code),
        })
    }

    fn batch(&mut self, max_bytes: usize) -> Option<Batch> {
        let mut records = Vec::new();
        let mut bytes = 0;
        while let Some(record) = self.ready.front() {
            let size = record.payload.size_bytes();
            if !records.is_empty() && bytes + size > max_bytes {
                break;
            }
            bytes += size;
            records.extend(self.ready.pop_front());
        }
        self.ready_bytes -= bytes;
        let next_offset = self.ready.front().map_or(self.position, |record| record.offset);
        if records.is_empty() && next_offset == self.next {
            return None;
        }
        self.next = next_offset;
        let seat = self.seat();
        let end = known_end(seat.client.client(), &seat.topic, seat.partition).unwrap_or_default();
        Some(Batch { records, next_offset, end: end.max(self.position) })
    }

    async fn why(&self, code: RDKafkaErrorCode) -> ReadError {
        match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => {
                match self.intake.cluster.watermarks(&self.topic, self.partition).await {
                    Ok(log) if self.next < log.first || self.next > log.end => ReadError::OutOfRange { asked: self.next, log },
                    Ok(_) => self.unavailable(code),
                    Err(error) => error.into(),
                }
            }
            RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition => {
                self.still_there().await.err().unwrap_or_else(|| self.unavailable(code))
            }
            code => self.unavailable(code),
        }
    }

    fn unavailable(&self, why: impl std::fmt::Display) -> ReadError {
        QueueError::Unavailable(format!("reading {}/{} at offset {}: {why}", self.topic, self.partition, self.next)).into()
    }

    /// Whether the topic is the one that was opened.
    async fn still_there(&self) -> Result<(), ReadError> {
        let known = self.intake.topics().known(&self.topic).map(|known| known.id);
        let id = match known {
            Some(id) => id,
            None => match self.intake.describe_surely(&self.topic).await? {
                Some(found) => found.id,
                None => return Err(QueueError::UnknownTopic(self.topic.clone()).into()),
            },
        };
        if id == self.id { Ok(()) } else { Err(QueueError::UnknownTopic(self.topic.clone()).into()) }
    }

    /// Nothing came for a while: is all well?
    async fn look_around(&mut self) -> Result<(), ReadError> {
        self.quiet_looks += 1;
        if let Err(gone @ ReadError::Queue(QueueError::UnknownTopic(_))) = self.still_there().await {
            return Err(gone);
        }
        let seat = self.seat();
        let ahead = known_end(seat.client.client(), &seat.topic, seat.partition).is_some_and(|end| end > self.position);
        let suspicious = (ahead && self.quiet_looks.is_multiple_of(STANDS_STILL_LOOKS)) || self.quiet_looks.is_multiple_of(ASK_LOOKS);
        if suspicious && let Ok(log) = self.intake.cluster.watermarks(&self.topic, self.partition).await {
            // An open transaction is not ahead: this end is that of what is committed.
            let (quiet, position) = (LOOK_EVERY * self.quiet_looks, self.position);
            if self.take_position() == position && log.end > position {
                warn!(topic = %self.topic, partition = self.partition.0, offset = position.0, end = log.end.0, ?quiet,
                    "a Kafka reader stands still although there are records ahead; it is opened anew");
                return Err(self.unavailable("it stood still"));
            }
        }
        Ok(())
    }

    /// What came while somebody was asked counts.
    fn take_position(&mut self) -> Offset {
        self.take();
        self.position
    }
}

#[async_trait]
impl Reader for KafkaReader {
    async fn next(&mut self, max_bytes: usize) -> Result<Batch, ReadError> {
        loop {
            while self.ready_bytes < max_bytes.max(1) && self.failed.is_none() && self.take() > 0 {}
            if let Some(batch) = self.batch(max_bytes) {
                self.quiet_looks = 0;
                return Ok(batch);
            }
            if let Some(code) = self.failed {
                return Err(self.why(code).await);
            }
            if self.seat().astray.load(Ordering::Acquire) {
                return Err(self.unavailable("a record came past its queue"));
            }
            let wake = Arc::clone(&self.seat().wake);
            if timeout(LOOK_EVERY, wake.notified()).await.is_err() {
                self.look_around().await?;
            }
        }
    }
}

impl Drop for KafkaReader {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.returns.give_back(seat);
        }
    }
}

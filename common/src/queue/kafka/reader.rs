//! Reading one partition.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rdkafka::error::RDKafkaErrorCode;
use tokio::time::timeout;

use super::intake::Intake;
use super::metrics::Reopening;
use super::native::Taken;
use super::readers::{Desk, Pace, Seat, Wanted};
use crate::ids::Offset;
use crate::queue::{Batch, QueueError, ReadError, Reader};
use crate::record::Record;

/// A wake-up can get lost in the client, and a topic can go.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a full queue, with records ahead, nothing comes for so long only if a fetch waits for other partitions:
/// longer than a partition rests whose queue was full.
const STARVING_AFTER: Duration = Duration::from_millis(50);
/// A reader does not ask for another client more often.
const STAY: Duration = Duration::from_secs(1);
/// And not for one that it was refused: too many catch up.
const STAY_REFUSED: Duration = Duration::from_secs(30);
/// Read to its end for so long, a partition has caught up.
const CAUGHT_UP_AFTER: Duration = Duration::from_secs(5);

pub(super) struct KafkaReader {
    /// `None` once it has ended, until there is another one.
    seat: Option<Seat>,
    desk: Desk,
    intake: Arc<Intake>,
    what: Wanted,
    /// Taken from the queue, not yet read.
    ready: VecDeque<Record>,
    ready_bytes: usize,
    /// After everything that was read.
    next: Offset,
    /// After everything that was taken.
    position: Offset,
    /// Nothing that may be read lies after it.
    at_end: bool,
    /// Since it last waited.
    taken_bytes: usize,
    /// What lay there before it was last empty was so much that the partition may not have been asked for.
    was_full: bool,
    /// When there was last known to be much ahead.
    behind_at: Instant,
    failed: Option<RDKafkaErrorCode>,
}

impl KafkaReader {
    pub(super) async fn open(desk: Desk, intake: Arc<Intake>, what: Wanted, from: Offset) -> Result<Self, QueueError> {
        let seat = Some(desk.open(&what, from).await?);
        Ok(Self {
            seat,
            desk,
            intake,
            what,
            ready: VecDeque::new(),
            ready_bytes: 0,
            next: from,
            position: from,
            at_end: false,
            taken_bytes: 0,
            was_full: false,
            behind_at: Instant::now(),
            failed: None,
        })
    }

    /// What was taken is not lost with an assignment: another one begins after it.
    async fn take_seat(&mut self) -> Result<(), QueueError> {
        if self.seat.is_none() {
            self.seat = Some(self.desk.open(&self.what, self.position).await?);
        }
        Ok(())
    }

    /// Takes what lies in the queue; whether there was something.
    fn take(&mut self) -> bool {
        let Self { seat, ready, ready_bytes, position, at_end, taken_bytes, failed, .. } = self;
        let Some(line) = seat.as_ref().map(|seat| &seat.line) else { return false };
        let taken = line.take(|taken| match taken {
            // Left over from an assignment before this one.
            Taken::Record(record) if record.offset < *position => {}
            Taken::Record(record) => {
                *position = record.offset.next();
                *at_end = false;
                *ready_bytes += record.payload.size_bytes();
                *taken_bytes += record.payload.size_bytes();
                ready.push_back(record);
            }
            Taken::End(end) => {
                *position = end.max(*position);
                *at_end = true;
            }
            Taken::Failed(code) => *failed = Some(code),
        });
        line.stands_at(self.position);
        match taken {
            Ok(count) => count > 0,
            Err(why) => {
                self.leave(why, Pace::Tail);
                false
            }
        }
    }

    /// Reads on with a client of that pace.
    fn leave(&mut self, why: Reopening, pace: Pace) {
        self.intake.site.metrics.reopened(why);
        self.seat = None;
        self.what.pace = pace;
    }

    fn known_end(&self) -> Offset {
        self.seat.as_ref().and_then(Seat::known_end).unwrap_or_default()
    }

    /// Whether so much was taken since the last wait that the partition may have been left out of a fetch.
    fn took_much(&self) -> bool {
        self.taken_bytes >= self.intake.site.options.prefetch_bytes / 2
    }

    /// Until there may be something, with another client perhaps.
    async fn wait(&mut self) -> Result<(), ReadError> {
        let Some(seat) = &self.seat else { return Ok(()) };
        let stay = if seat.pace == self.what.pace { STAY } else { STAY_REFUSED };
        if self.taken_bytes > 0 {
            self.was_full = self.took_much();
            self.taken_bytes = 0;
        }
        let behind = self.was_full && !self.at_end && self.known_end() > self.position;
        if behind {
            self.behind_at = Instant::now();
        }
        match seat.pace {
            Pace::Tail if behind && seat.since.elapsed() >= stay => {
                if timeout(STARVING_AFTER, seat.line.woken()).await.is_err() {
                    self.leave(Reopening::Behind, Pace::CatchUp);
                }
            }
            Pace::CatchUp if self.at_end && self.behind_at.elapsed() >= CAUGHT_UP_AFTER => self.leave(Reopening::CaughtUp, Pace::Tail),
            Pace::Tail | Pace::CatchUp => {
                let woken = timeout(LOOK_EVERY, seat.line.woken()).await.is_ok();
                if !woken && let Err(gone @ ReadError::Queue(QueueError::UnknownTopic(_))) = self.still_there().await {
                    return Err(gone);
                }
            }
        }
        Ok(())
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
        let end = self.known_end().max(self.position);
        if end > self.position && self.took_much() {
            self.behind_at = Instant::now();
        }
        Some(Batch { records, next_offset, end })
    }

    async fn why(&self, code: RDKafkaErrorCode) -> ReadError {
        let (topic, partition) = &self.what.place;
        match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => {
                match self.intake.cluster.watermarks(topic, *partition).await {
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
        let (topic, partition) = &self.what.place;
        QueueError::Unavailable(format!("reading {topic}/{partition} at offset {}: {why}", self.next)).into()
    }

    /// Whether the topic is the one that was opened.
    async fn still_there(&self) -> Result<(), ReadError> {
        let (topic, _) = &self.what.place;
        let known = self.intake.topics().known(topic).map(|known| known.id);
        let id = match known {
            Some(id) => id,
            None => match self.intake.describe_surely(topic).await? {
                Some(found) => found.id,
                None => return Err(QueueError::UnknownTopic(topic.clone()).into()),
            },
        };
        if id == self.what.id { Ok(()) } else { Err(QueueError::UnknownTopic(topic.clone()).into()) }
    }
}

#[async_trait]
impl Reader for KafkaReader {
    async fn next(&mut self, max_bytes: usize) -> Result<Batch, ReadError> {
        loop {
            self.take_seat().await?;
            while self.ready_bytes < max_bytes.max(1) && self.failed.is_none() && self.take() {}
            if let Some(batch) = self.batch(max_bytes) {
                return Ok(batch);
            }
            if let Some(code) = self.failed {
                return Err(self.why(code).await);
            }
            self.wait().await?;
        }
    }
}

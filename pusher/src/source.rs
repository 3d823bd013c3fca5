//! What the engine reads from: one partition of the queue, opened anew whenever it has to be.

use std::sync::Arc;
use std::time::Duration;

use common::ids::{Epoch, GroupPartition, Offset, TopicId};
use common::queue::shared;
use common::queue::{Batch, ReadError, Reader};
use engine::ports::SourceError;
use tokio::time::Instant;
use tracing::warn;

use crate::backoff::Backoff;
use crate::cluster::Cluster;
use crate::decode::{Origin, SourcedRecord};
use crate::metrics::Metrics;
use crate::stop::{Reason, Stop, refusal};

const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Reads on from where it stood when the queue does not answer; ends only when what it should read
/// is not there.
pub(crate) struct PartitionSource {
    cluster: Arc<Cluster>,
    at: GroupPartition,
    topic_id: Option<TopicId>,
    epoch: Epoch,
    origin: Arc<Origin>,
    stop: Stop,
    metrics: Metrics,
    next: Offset,
    reader: Option<Box<dyn Reader>>,
    backoff: Backoff,
    /// Not before this. Kept here, so that a dropped call does not shorten the pause.
    resume: Option<Instant>,
}

/// Where a source begins, and on whose behalf.
pub(crate) struct Place {
    pub(crate) at: GroupPartition,
    pub(crate) topic_id: Option<TopicId>,
    pub(crate) epoch: Epoch,
    pub(crate) origin: Arc<Origin>,
    pub(crate) from: Offset,
}

impl PartitionSource {
    pub(crate) fn new(cluster: Arc<Cluster>, place: Place, stop: Stop, metrics: Metrics) -> Self {
        let Place { at, topic_id, epoch, origin, from } = place;
        Self {
            cluster,
            at,
            topic_id,
            epoch,
            origin,
            stop,
            metrics,
            next: from,
            reader: None,
            backoff: Backoff::new(MAX_PAUSE),
            resume: None,
        }
    }

    /// Opens a reader first if there is none.
    async fn read(&mut self, max_bytes: usize) -> Result<Batch, ReadError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            closed => {
                let place = shared::Place { topic: self.at.topic.clone(), id: self.topic_id, partition: self.at.partition };
                closed.insert(self.cluster.readers.open(place, self.next, self.epoch).await?)
            }
        };
        reader.next(max_bytes).await
    }

    fn pause(&mut self, error: &ReadError) {
        self.reader = None;
        self.metrics.read_failed(&self.at);
        let pause = self.backoff.step();
        warn!(group = %self.at.group, topic = %self.at.topic, partition = self.at.partition.0, offset = self.next.0, %error, retry_in = ?pause,
            "reading failed; it is tried again from the same offset");
        self.resume = Some(Instant::now() + pause);
    }
}

impl engine::ports::Source for PartitionSource {
    type Record = SourcedRecord;

    async fn next(&mut self, max_bytes: usize) -> Result<engine::ports::Batch<SourcedRecord>, SourceError> {
        loop {
            if let Some(resume) = self.resume {
                tokio::time::sleep_until(resume).await;
                self.resume = None;
            }
            let error = match self.read(max_bytes).await {
                Ok(batch) => {
                    self.next = batch.next_offset;
                    self.backoff.reset();
                    return Ok(self.sourced(batch));
                }
                Err(error) => error,
            };
            if let Some(reason) = refusal(&error) {
                let gone = matches!(reason, Reason::TopicGone(_));
                self.stop.read_refused(reason);
                return Err(if gone { SourceError::Gone(error.to_string()) } else { SourceError::Failed(error.to_string()) });
            }
            self.pause(&error);
        }
    }
}

impl PartitionSource {
    /// Moves the records; only their place is added.
    fn sourced(&self, batch: Batch) -> engine::ports::Batch<SourcedRecord> {
        let records = batch.records.into_iter().map(|record| SourcedRecord { origin: self.origin.clone(), record });
        engine::ports::Batch { records: records.collect(), next_offset: engine::ids::Offset(batch.next_offset.0) }
    }
}

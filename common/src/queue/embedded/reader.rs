//! Reading one partition.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::codec;
use super::log::{Found, Horizon, Log};
use super::segment::Run;
use crate::ids::Offset;
use crate::queue::{Batch, QueueError, ReadError, Reader};
use crate::record::Record;

pub(super) struct LogReader {
    log: Arc<Log>,
    horizon: watch::Receiver<Horizon>,
    position: u64,
}

impl LogReader {
    pub(super) fn open(log: Arc<Log>, from: Offset) -> Result<Self, ReadError> {
        let watermarks = log.watermarks();
        if from < watermarks.first || from > watermarks.end {
            return Err(ReadError::OutOfRange { asked: from, log: watermarks });
        }
        Ok(Self { horizon: log.horizon(), log, position: from.0 })
    }

    fn deleted(&self) -> ReadError {
        QueueError::UnknownTopic(self.log.topic.clone()).into()
    }

    async fn stored(&self, run: Run, max_bytes: usize) -> Result<Vec<Record>, QueueError> {
        let (place, from) = (self.log.place, self.position);
        let read = spawn_blocking(move || run.read(place, from, max_bytes)).await;
        let read = read.map_err(|e| QueueError::Storage(format!("reading stopped: {e}")))?;
        Ok(read?)
    }

    fn batch(&mut self, records: Vec<Record>, end: u64) -> Batch {
        let next_offset = records.last().map_or(Offset(self.position), |record| record.offset.next());
        self.position = next_offset.0;
        Batch { records, next_offset, end: Offset(end) }
    }
}

#[async_trait]
impl Reader for LogReader {
    async fn next(&mut self, max_bytes: usize) -> Result<Batch, ReadError> {
        loop {
            // Seen before the log is looked at, so that nothing can come in between unnoticed.
            if *self.horizon.borrow_and_update() == Horizon::Deleted {
                return Err(self.deleted());
            }
            let (found, end) = self.log.find(self.position, max_bytes);
            let records = match found {
                Found::Recent(records) => decode(self.position, &records)?,
                Found::Stored(run) => self.stored(run, max_bytes).await?,
                // A topic deleted just now looks like this, too.
                Found::Outside if self.log.deleted() => return Err(self.deleted()),
                Found::Outside => {
                    return Err(ReadError::OutOfRange { asked: Offset(self.position), log: self.log.watermarks() });
                }
                Found::AtEnd => {
                    // The sender lives as long as the log, which this reader holds.
                    drop(self.horizon.changed().await);
                    continue;
                }
            };
            return Ok(self.batch(records, end));
        }
    }
}

fn decode(base: u64, records: &[Bytes]) -> Result<Vec<Record>, QueueError> {
    let decoded = (base..).zip(records).map(|(offset, record)| {
        let (timestamp, payload) = codec::decode(record).map_err(|e| QueueError::Storage(e.to_string()))?;
        Ok(Record { offset: Offset(offset), timestamp, payload })
    });
    decoded.collect()
}

//! The embedded log: topics, partitions and records on the embedded store, for one process.
//!
//! # The way of a record
//! `produce` encodes it in the caller's thread and hands it to the committing thread
//! (`committer`) through a bounded queue. That thread takes everything that waits, writes it as
//! one batch with one sync, then publishes (ends move, readers wake) and answers. Readers take the
//! newest records from memory, where all readers of a partition share them, and older ones from
//! the store.
//!
//! # How it lies in the store
//! Records of one commit and partition are stored as a *chunk* (`chunk`) in the newest of a row
//! of *segments* (`segment`), each a keyspace of its own that is filled to about 64 MiB with
//! chunks of all partitions and then only read. So every byte is written to the journal and to one
//! table, and never again: an LSM tree over the whole log, with partitions growing side by side in
//! it, would merge and rewrite the log about ten times over, and a tree per topic would make a
//! thousand small flushes where this makes one. Key-value separation would rewrite keys only, but
//! costs a read per record. Retention drops whole segments, with no tombstone; what is left over of
//! sparse ones is moved together (`cleaner`).
//!
//! Memory: what waits for the disk (64 MiB at most), 8 MiB of newest records, and the store's own
//! bounds. Nothing here grows with what lies on disk but 48 bytes per partition and segment.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use prometheus_client::registry::Registry;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

pub use self::meta::MetaError;
pub use self::options::{Clock, MAX_PARTITIONS, MAX_RECORD_BYTES, Options};
pub use self::recovery::RecoveryError;

use self::catalog::Catalog;
use self::committer::Committer;
use self::head::Head;
use self::housekeeper::{Housekeeper, Job, Sealed};
use self::intake::{Intake, Pending, Target, Work, shutting_down};
use self::meta::Meta;
use self::metrics::Metrics;
use self::partitioner::Wish;
use self::reader::LogReader;
use self::recent::Recent;
use self::recovery::{Recovered, recover};
use self::round::Round;
use self::shared::{Health, Shared};
use super::{
    Ack, CreateTopicError, NotWritten, Produce, ProduceError, Produced, Queue, QueueError, ReadError, Reader, TopicInfo, Watermarks,
};
use crate::ids::{Epoch, Offset, Partition, Topic, TopicId};
use crate::record::{Message, TimestampMs};
use crate::store::Store;

mod catalog;
mod chunk;
mod cleaner;
mod codec;
mod committer;
mod head;
mod housekeeper;
mod intake;
mod log;
mod meta;
mod metrics;
mod options;
mod partitioner;
mod reader;
mod recent;
mod recovery;
mod retention;
mod round;
mod segment;
mod shared;
mod space;

/// Closing takes this long only on a disk that does not answer.
const SLOW_CLOSE: Duration = Duration::from_secs(5);

/// What must be kept although it is old.
pub trait Needs: Send + Sync + 'static {
    /// The lowest offset that some configured group has yet to deliver; `None` if no group reads
    /// the partition. Called from the housekeeping thread about once a minute for each partition.
    fn lowest_needed(&self, topic: &Topic, topic_id: TopicId, partition: Partition) -> Option<Offset>;
}

/// The embedded log. Dropping it closes it: what was taken is written first.
pub struct EmbeddedQueue {
    shared: Arc<Shared>,
    intake: Intake,
    jobs: std::sync::mpsc::Sender<Job>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl EmbeddedQueue {
    /// Opens the log in the store, or begins it.
    pub fn open(store: Store, options: Options, registry: &mut Registry) -> Result<Arc<Self>, RecoveryError> {
        let meta = Meta::open(&store)?;
        let recovered = recover(&store, &meta)?;
        let (intake, work) = Intake::new(options.local_queue_records, options.local_queue_bytes);
        let Recovered { topics, sealed, unsealed, head, next_segment, next_topic } = recovered;
        let shared = Arc::new(Shared {
            store,
            meta,
            catalog: Catalog::new(topics),
            options,
            metrics: Metrics::register(registry),
            health: Health::default(),
            spare: Mutex::new(None),
            next_segment: next_segment.into(),
            needs: RwLock::new(None),
        });
        let head = head.map_or_else(|| shared.new_segment().map(|segment| Sealed { segment, bytes: 0 }), Ok)?;
        let (jobs, todo) = std::sync::mpsc::channel();
        for job in unsealed.into_iter().map(Job::Seal).chain([Job::Clean]) {
            drop(jobs.send(job));
        }
        let housekeeper = Housekeeper { shared: Arc::clone(&shared), jobs: todo, work: intake.sender(), sealed, warned: None };
        let head = Head::new(head, shared.now());
        let (jobs_too, recent, round) = (jobs.clone(), Recent::default(), Round::default());
        let committer = Committer { shared: Arc::clone(&shared), work, jobs: jobs_too, head, recent, next_topic, round };
        let threads = vec![spawn("log-commit", || committer.run()), spawn("log-housekeeping", || housekeeper.run())];
        Ok(Arc::new(Self { shared, intake, jobs, threads: Mutex::new(threads) }))
    }

    /// Says what retention by age must spare. Until this is called, age drops nothing.
    pub fn set_needs(&self, needs: Arc<dyn Needs>) {
        *self.shared.needs.write().unwrap_or_else(PoisonError::into_inner) = Some(needs);
    }

    /// Applies retention and gives space back now, rather than within a minute.
    pub async fn housekeep(&self) {
        let (answer, rolled) = oneshot::channel();
        if self.intake.send(Work::RollIfBefore(housekeeper::roll_before(&self.shared), Some(answer))).is_err() {
            return;
        }
        // Dropped unanswered only when the queue is closing.
        drop(rolled.await);
        let (answer, swept) = oneshot::channel();
        drop(self.jobs.send(Job::Sweep(Some(answer))));
        drop(swept.await);
    }

    /// Takes nothing more, and returns when what was taken is written and answered. On a disk that
    /// does not answer this has no bound: a thread that waits in a sync can be left only by ending
    /// the process. What it waits for is logged.
    pub async fn shutdown(self: &Arc<Self>) {
        let this = Arc::clone(self);
        let mut closing = spawn_blocking(move || this.close());
        // A panic in there has been printed, and closing goes on.
        while timeout(SLOW_CLOSE, &mut closing).await.is_err() {
            tracing::warn!(
                folder = %self.shared.store.folder().display(),
                "still closing the embedded log: its disk has not answered a write; messages that wait for it have not been acknowledged. \
                 A second SIGTERM or Ctrl-C stops at once"
            );
        }
    }

    fn close(&self) {
        self.intake.close();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let mut threads = threads.into_iter();
        if let Some(committer) = threads.next() {
            drop(committer.join());
        }
        drop(self.jobs.send(Job::Close));
        for housekeeper in threads {
            drop(housekeeper.join());
        }
    }

    fn try_produce(&self, message: Message, ack: Ack) -> Result<Produce, ProduceError> {
        let Message { topic, partition, timestamp, payload } = message;
        let size = codec::encoded_len(&payload);
        if size > MAX_RECORD_BYTES {
            return Err(ProduceError::TooLarge { size, limit: MAX_RECORD_BYTES });
        }
        if let Some(failure) = self.shared.store.failure() {
            return Err(ProduceError::NotWritten(NotWritten::StorageFailed, failure.to_string()));
        }
        let target = self.target(topic, Wish::new(partition, payload.key.as_deref()))?;
        let permit = self.intake.admit(size)?;
        let timestamp = timestamp.unwrap_or_else(|| self.shared.now());
        let record = codec::encode(timestamp, &payload);
        let (answer, produce) = match ack {
            Ack::All => {
                let (answer, produce) = Produce::pending();
                (Some(answer), produce)
            }
            Ack::None => {
                let partition = if let Target::Known(_, partition) = target { partition } else { Partition(0) };
                (None, Produce::answered(Ok(Produced { partition, offset: Offset(0), timestamp })))
            }
        };
        let work = Work::Append(Pending { target, record, timestamp, answer, permit });
        self.intake.send(work).map(|()| produce).map_err(|_| shutting_down())
    }

    fn target(&self, topic: Topic, wish: Wish) -> Result<Target, ProduceError> {
        let Some(logs) = self.shared.catalog.get(&topic) else {
            return match self.shared.options.auto_create {
                Some(_) => Ok(Target::New(topic, wish)),
                None => Err(ProduceError::UnknownTopic(topic)),
            };
        };
        match logs.choose(wish) {
            Some(partition) => Ok(Target::Known(logs, partition)),
            None => Err(ProduceError::UnknownPartition { topic, partition: wish.partition(), partitions: logs.info.partitions }),
        }
    }
}

impl Drop for EmbeddedQueue {
    fn drop(&mut self) {
        self.close();
    }
}

#[async_trait]
impl Queue for EmbeddedQueue {
    fn produce(&self, message: Message, ack: Ack) -> Produce {
        self.try_produce(message, ack).unwrap_or_else(|error| Produce::answered(Err(error)))
    }

    async fn topics(&self) -> Result<Vec<TopicInfo>, QueueError> {
        Ok(self.shared.catalog.infos())
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicInfo>, QueueError> {
        Ok(self.shared.catalog.get(topic).map(|logs| logs.info.clone()))
    }

    async fn create_topic(&self, topic: &Topic, partitions: u32) -> Result<TopicInfo, CreateTopicError> {
        let (answer, answered) = oneshot::channel();
        let work = Work::Create { topic: topic.clone(), partitions, answer };
        self.intake.send(work).map_err(|_| closing())?;
        answered.await.map_err(|_| closing())?
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<bool, QueueError> {
        let (answer, answered) = oneshot::channel();
        self.intake.send(Work::Delete { topic: topic.clone(), answer }).map_err(|_| closing())?;
        answered.await.map_err(|_| closing())?
    }

    async fn watermarks(&self, topic: &Topic, partition: Partition) -> Result<Watermarks, QueueError> {
        Ok(self.shared.catalog.log(topic, partition)?.watermarks())
    }

    async fn offset_for_time(&self, topic: &Topic, partition: Partition, time: TimestampMs) -> Result<Offset, QueueError> {
        let log = self.shared.catalog.log(topic, partition)?;
        // Before the run is looked for: what comes later is at or after this end.
        let end = log.watermarks().end;
        let Some(run) = log.run_for_time(time) else { return Ok(end) };
        let found = spawn_blocking(move || run.first_at(log.place, time)).await;
        let found = found.map_err(|e| QueueError::Storage(format!("reading stopped: {e}")))?;
        Ok(Offset(found?))
    }

    async fn open(&self, topic: &Topic, partition: Partition, from: Offset, _epoch: Epoch) -> Result<Box<dyn Reader>, ReadError> {
        let log = self.shared.catalog.log(topic, partition)?;
        Ok(Box::new(LogReader::open(log, from)?))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.shared.catalog.changes()
    }

    fn missing(&self) -> Vec<String> {
        self.shared.health.missing(&self.shared.store)
    }
}

fn closing() -> QueueError {
    QueueError::Unavailable("the queue is closing".to_owned())
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread can be started while the program starts")
}

#[cfg(test)]
pub(super) mod tests;

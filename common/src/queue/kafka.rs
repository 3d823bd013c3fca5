//! Apache Kafka, by way of librdkafka.
//!
//! # The way of a message
//! `produce` looks its topic up in what is known (`topics`); if nothing is, the message waits, with
//! others to that topic and in order, while the cluster is asked (`intake`): the client itself would
//! take half a minute to say that there is none. Then it goes to the one idempotent producer
//! (`producer`), whose report answers the caller. What was refused because of others in its batch
//! is sent once more by itself (`follow_up`).
//!
//! # The way of a record
//! Readers share clients (`readers`), each partition with a queue of its own (`line`), from which
//! its reader takes records without a thread in between (`reader`). Nothing is ever paused: a queue
//! that is not read holds back its own partition. One that stands still is opened anew (`stalls`).
//!
//! # Memory
//! The local queue; `prefetch_total_bytes` for what nobody takes, and for each reader that does take
//! it `prefetch_bytes`, both exceeded by a batch that is larger; 10,000 messages (64 MiB) that wait for
//! topics to be found; what is known of the cluster's topics. For each cluster, so for the process
//! so many times as it has clusters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rdkafka::error::RDKafkaErrorCode;
use tokio::sync::watch as tokio_watch;
use tokio::task::{JoinHandle, spawn_blocking};

pub use self::brokers::{BrokerSource, ReadBrokers};
pub use self::metrics::KafkaMetrics;
pub use self::options::{Compression, Options, OptionsError, Partitioner};
pub use self::settings::{PropertyError, check_property};

use self::cluster::Cluster;
use self::intake::Intake;
use self::native::Description;
use self::producer::Waiting;
use self::reader::KafkaReader;
use self::readers::{Pace, Readers, Wanted};
use self::site::Site;
use self::topics::Pending;
use super::{Ack, CreateTopicError, Produce, Queue, QueueError, ReadError, Reader, TopicInfo, Watermarks};
use crate::ids::{Epoch, Offset, Partition, Topic};
use crate::record::{Message, TimestampMs};

mod brokers;
mod cluster;
mod context;
mod creation;
mod follow_up;
mod health;
mod intake;
mod joint;
mod line;
mod metrics;
mod native;
mod options;
mod outcome;
mod producer;
mod reader;
mod readers;
mod seek;
mod settings;
mod site;
mod stalls;
mod statistics;
mod topics;
mod watch;
mod wire;

/// Of one topic; Kafka itself has no bound, but takes minutes long before this.
const MAX_PARTITIONS: u32 = 10_000;
/// Until a new topic is seen by whom we ask.
const CREATED_WITHIN: Duration = Duration::from_secs(5);

/// A Kafka cluster as a queue.
pub struct KafkaQueue {
    site: Arc<Site>,
    intake: Arc<Intake>,
    readers: Readers,
    tasks: Vec<JoinHandle<()>>,
}

impl KafkaQueue {
    /// Starts the clients. Whether a broker is known, and can be reached, shows later, in
    /// [`Queue::missing`]. Must be called within a tokio runtime.
    pub fn start(options: Options, metrics: &KafkaMetrics) -> Result<Arc<Self>, OptionsError> {
        let site = Arc::new(Site::new(options, metrics)?);
        let (readers, client) = Readers::start(&site)?;
        let cluster = Arc::new(Cluster::new(client, Arc::clone(&site)));
        let (intake, reports) = Intake::start(Arc::clone(&site), cluster)?;
        let mut tasks = vec![
            tokio::spawn(follow_up::run(Arc::downgrade(&intake), reports)),
            tokio::spawn(watch::run(Arc::downgrade(&intake), Arc::clone(&site))),
            tokio::spawn(stalls::run(Arc::downgrade(&intake), Arc::clone(&site), readers.desk().clone())),
        ];
        if site.brokers.may_move() {
            tasks.push(tokio::spawn(watch::seek_brokers(Arc::downgrade(&intake), Arc::clone(&site), readers.desk().clone())));
        }
        Ok(Arc::new(Self { site, intake, readers, tasks }))
    }

    /// Takes nothing more, and returns when what was taken is answered, or `produce_timeout` has passed.
    pub async fn shutdown(&self) {
        let intake = Arc::clone(&self.intake);
        // A panic in there has been printed, and closing goes on.
        drop(spawn_blocking(move || intake.close()).await);
    }

    async fn must_have(&self, topic: &Topic, partition: Partition) -> Result<Description, QueueError> {
        let known = self.intake.topics().known(topic);
        if let Some(known) = known.filter(|known| partition.0 < known.partitions) {
            return Ok(Description { partitions: known.partitions, id: known.id });
        }
        match self.intake.describe_surely(topic).await? {
            None => Err(QueueError::UnknownTopic(topic.clone())),
            Some(found) if partition.0 >= found.partitions => Err(QueueError::UnknownPartition(topic.clone(), partition)),
            Some(found) => Ok(found),
        }
    }
}

impl Drop for KafkaQueue {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn info(topic: &Topic, found: &Description) -> TopicInfo {
    TopicInfo { topic: topic.clone(), id: found.id, partitions: found.partitions }
}

fn refused(what: &str, topic: &Topic, code: RDKafkaErrorCode) -> QueueError {
    QueueError::Unavailable(format!("Kafka does not {what} topic {topic}: {code}"))
}

#[async_trait]
impl Queue for KafkaQueue {
    fn produce(&self, message: Message, ack: Ack) -> Produce {
        let (answer, produce) = Produce::pending();
        self.intake.accept(Pending { message, waiting: Waiting::For(answer), ack });
        produce
    }

    async fn topics(&self) -> Result<Vec<TopicInfo>, QueueError> {
        watch::look(&self.intake).await
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicInfo>, QueueError> {
        Ok(self.intake.describe_surely(topic).await?.map(|found| info(topic, &found)))
    }

    async fn create_topic(&self, topic: &Topic, partitions: u32) -> Result<TopicInfo, CreateTopicError> {
        if partitions == 0 || partitions > MAX_PARTITIONS {
            return Err(CreateTopicError::Partitions { asked: partitions, max: MAX_PARTITIONS });
        }
        let created = self.intake.cluster.create(topic, Some(partitions)).await?;
        let exists = match created {
            Ok(()) => false,
            Err(RDKafkaErrorCode::TopicAlreadyExists) => true,
            Err(code) => return Err(refused("create", topic, code).into()),
        };
        let began = Instant::now();
        loop {
            match self.intake.describe(topic).await {
                Ok(Some(found)) if exists => return Err(CreateTopicError::Exists(info(topic, &found))),
                Ok(Some(found)) => return Ok(info(topic, &found)),
                Err(error) if began.elapsed() >= CREATED_WITHIN => return Err(error.into()),
                Ok(None) if began.elapsed() >= CREATED_WITHIN => {
                    return Err(QueueError::Unavailable(format!("topic {topic} was created, but is not to be seen")).into());
                }
                Ok(None) | Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<bool, QueueError> {
        match self.intake.cluster.delete(topic).await? {
            Ok(()) => {
                self.intake.lost(topic);
                Ok(true)
            }
            Err(RDKafkaErrorCode::UnknownTopicOrPartition) => Ok(false),
            Err(code) => Err(refused("delete", topic, code)),
        }
    }

    async fn watermarks(&self, topic: &Topic, partition: Partition) -> Result<Watermarks, QueueError> {
        self.must_have(topic, partition).await?;
        self.intake.cluster.watermarks(topic, partition).await
    }

    async fn offset_for_time(&self, topic: &Topic, partition: Partition, time: TimestampMs) -> Result<Offset, QueueError> {
        self.must_have(topic, partition).await?;
        match self.intake.cluster.offset_for_time(topic, partition, time).await? {
            Some(offset) => Ok(offset),
            None => Ok(self.intake.cluster.watermarks(topic, partition).await?.end),
        }
    }

    async fn open(&self, topic: &Topic, partition: Partition, from: Offset, _epoch: Epoch) -> Result<Box<dyn Reader>, ReadError> {
        let Description { partitions, id } = self.must_have(topic, partition).await?;
        let wanted = Wanted { place: (topic.clone(), partition), partitions, id, pace: Pace::Tail };
        Ok(Box::new(KafkaReader::open(self.readers.desk().clone(), Arc::clone(&self.intake), wanted, from).await?))
    }

    fn changes(&self) -> tokio_watch::Receiver<u64> {
        self.intake.changes()
    }

    fn missing(&self) -> Vec<String> {
        self.site.missing()
    }
}

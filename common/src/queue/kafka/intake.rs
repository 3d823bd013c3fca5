//! The way of a message: from the caller to librdkafka, by way of what is known of its topic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use super::cluster::Cluster;
use super::creation::Creations;
use super::native::{Description, Persisted};
use super::options::{Compression, OptionsError};
use super::outcome;
use super::producer::{FollowUp, Lane, Waiting};
use super::settings::{BATCH_BYTES, Batching};
use super::site::Site;
use super::topics::{Known, Limit, News, Pending, Standing, Topics};
use super::wire;
use crate::ids::{Offset, Partition, Topic};
use crate::queue::{Ack, NotWritten, ProduceError, Produced, QueueError};
use crate::record::TimestampMs;

/// A topic made a moment ago is not known to every broker yet, and a broker that has just started
/// may know less than there is.
pub(super) const MISSING_AFTER: Duration = Duration::from_millis(700);
const SURE_WITHIN: Duration = Duration::from_millis(1_900);
/// A cluster that said so more recently need not be asked again whether partitions were added.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// For as long a topic's limit is not tried again.
const LIMIT_FOR: Duration = Duration::from_secs(30);

pub(super) struct Intake {
    pub(super) cluster: Arc<Cluster>,
    pub(super) site: Arc<Site>,
    pub(super) creations: Creations,
    topics: RwLock<Topics>,
    lane: Lane,
    /// For messages, and topics, whose batches were refused.
    alone: OnceLock<Lane>,
    follow_ups: mpsc::UnboundedSender<FollowUp>,
    closing: AtomicBool,
    pub(super) runtime: Handle,
    changes: watch::Sender<u64>,
}

impl Intake {
    pub(super) fn start(site: Arc<Site>, cluster: Arc<Cluster>) -> Result<(Arc<Self>, mpsc::UnboundedReceiver<FollowUp>), OptionsError> {
        let (follow_ups, reports) = mpsc::unbounded_channel();
        let this = Self {
            cluster,
            creations: Creations::new(Instant::now()),
            topics: RwLock::default(),
            lane: Lane::start(&site, Batching::Many, follow_ups.clone())?,
            alone: OnceLock::new(),
            follow_ups,
            site,
            closing: AtomicBool::new(false),
            runtime: Handle::current(),
            changes: watch::channel(0).0,
        };
        Ok((Arc::new(this), reports))
    }

    pub(super) fn topics(&self) -> RwLockReadGuard<'_, Topics> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn topics_mut(&self) -> RwLockWriteGuard<'_, Topics> {
        self.topics.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// As [`Self::describe`], but "there is none" counts only if it is said for a while. Within 2 s.
    pub(super) async fn describe_surely(self: &Arc<Self>, topic: &Topic) -> Result<Option<Description>, QueueError> {
        let began = Instant::now();
        let asked = async {
            loop {
                match self.describe(topic).await {
                    Ok(None) if began.elapsed() < MISSING_AFTER => tokio::time::sleep(Duration::from_millis(50)).await,
                    answer => return answer,
                }
            }
        };
        tokio::time::timeout(SURE_WITHIN, asked).await.unwrap_or_else(|_| Err(self.cluster.silent()))
    }

    /// What the cluster says of a topic, remembered.
    pub(super) async fn describe(self: &Arc<Self>, topic: &Topic) -> Result<Option<Description>, QueueError> {
        let found = self.cluster.describe(topic).await?;
        if let Some(found) = &found {
            self.learned(topic, found);
        }
        Ok(found)
    }

    pub(super) fn learned(self: &Arc<Self>, topic: &Topic, found: &Description) {
        let news = self.topics_mut().learn(topic, found, Instant::now());
        if news != News::None {
            self.changed();
        }
        if news == News::Changed {
            // By itself, the producer would go on with the partitions that it knows for five minutes.
            let (this, topic) = (Arc::clone(self), topic.clone());
            self.runtime.spawn(async move { this.remind_client(&topic).await });
        }
    }

    /// A topic that is gone, and what waited for it.
    pub(super) fn lost(&self, topic: &Topic) {
        let waiting = self.topics_mut().lose(topic, Instant::now());
        self.changed();
        for pending in waiting {
            pending.waiting.tell(Err(ProduceError::UnknownTopic(topic.clone())));
        }
    }

    pub(super) fn accept(self: &Arc<Self>, pending: Pending) {
        if self.closing.load(Ordering::Acquire) {
            return pending.waiting.tell(Err(not_written(NotWritten::ShuttingDown, "the queue is closing")));
        }
        let size = pending.message.payload.size_bytes();
        let limit = self.site.options.max_message_bytes;
        if size > limit {
            return pending.waiting.tell(Err(ProduceError::TooLarge { size, limit }));
        }
        let now = Instant::now();
        let standing = self.topics().standing(&pending.message.topic, now);
        match standing {
            Standing::Known(known) => self.send(known, pending),
            Standing::Missing => {
                let topic = pending.message.topic;
                pending.waiting.tell(Err(ProduceError::UnknownTopic(topic)));
            }
            Standing::Unclear => self.seek(pending, now),
        }
    }

    pub(super) fn send(self: &Arc<Self>, known: Known, pending: Pending) {
        match pending.message.partition {
            Some(partition) if partition.0 >= known.partitions && known.seen.elapsed() >= FRESH_FOR => {
                self.runtime.spawn(Arc::clone(self).send_to_new_partition(pending, known));
            }
            _ => {
                if let Some(pending) = self.try_send(known, pending) {
                    self.reintroduce(pending);
                }
            }
        }
    }

    async fn send_to_new_partition(self: Arc<Self>, pending: Pending, known: Known) {
        match self.describe(&pending.message.topic).await {
            Ok(Some(found)) => self.send(Known { partitions: found.partitions, seen: Instant::now(), ..known }, pending),
            Ok(None) => pending.waiting.tell(Err(ProduceError::UnknownTopic(pending.message.topic))),
            Err(error) => pending.waiting.tell(Err(not_written(NotWritten::Unavailable, &error.to_string()))),
        }
    }

    /// Gives the message back if the client knows no such topic or partition.
    pub(super) fn try_send(&self, known: Known, pending: Pending) -> Option<Pending> {
        let Pending { message, waiting, ack } = pending;
        if let Some(refusal) = self.refusal(known, &message) {
            waiting.tell(Err(refusal));
            return None;
        }
        let place = (message.partition.unwrap_or(Partition(0)), message.timestamp.unwrap_or(0));
        let (travels, tell_now) = match ack {
            Ack::All => (waiting, None),
            Ack::None => (Waiting::Nobody, Some(waiting)),
        };
        match (self.lane_for(known).send(&message, travels), tell_now) {
            (Ok(()), Some(waiting)) => waiting.tell(Ok(taken(place))),
            (Ok(()), None) => {}
            (Err((RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition, travels)), tell_now) => {
                return Some(Pending { message, waiting: tell_now.unwrap_or(travels), ack });
            }
            (Err((code, travels)), tell_now) => tell_now.unwrap_or(travels).tell(Err(self.not_taken(code, &message))),
        }
        None
    }

    fn refusal(&self, known: Known, message: &crate::record::Message) -> Option<ProduceError> {
        if let Some(partition) = message.partition.filter(|partition| partition.0 >= known.partitions) {
            return Some(ProduceError::UnknownPartition { topic: message.topic.clone(), partition, partitions: known.partitions });
        }
        // What a compressed message will have, only the broker can tell.
        let believed = |limit: &Limit| self.site.options.compression == Compression::None && limit.seen.elapsed() < LIMIT_FOR;
        let limit = known.limit.filter(believed)?.bytes;
        let size = wire::alone_bytes(&message.payload);
        (size > limit).then_some(ProduceError::TooLarge { size, limit })
    }

    fn not_taken(&self, code: RDKafkaErrorCode, message: &crate::record::Message) -> ProduceError {
        match code {
            RDKafkaErrorCode::MessageSizeTooLarge => {
                ProduceError::TooLarge { size: message.payload.size_bytes(), limit: self.site.options.max_message_bytes }
            }
            code => outcome::of(code, Persisted::No, &message.topic),
        }
    }

    /// A topic that takes less than a batch may have gets no batches, always on the same lane.
    fn lane_for(&self, known: Known) -> &Lane {
        match known.limit {
            Some(limit) if limit.bytes < BATCH_BYTES => self.alone().unwrap_or(&self.lane),
            _ => &self.lane,
        }
    }

    pub(super) fn alone(&self) -> Result<&Lane, OptionsError> {
        if let Some(lane) = self.alone.get() {
            return Ok(lane);
        }
        let lane = Lane::start(&self.site, Batching::Single, self.follow_ups.clone())?;
        Ok(self.alone.get_or_init(|| lane))
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        std::iter::once(&self.lane).chain(self.alone.get())
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Tells the clients where brokers are.
    pub(super) fn introduce(&self, brokers: &str) {
        self.lanes().for_each(|lane| lane.introduce(brokers));
    }

    pub(super) fn spare_statistics(&self) {
        self.lanes().for_each(Lane::spare_statistics);
    }

    /// Takes nothing more, and waits for what was taken, at most `produce_timeout`.
    pub(super) fn close(&self) {
        if !self.closing.swap(true, Ordering::AcqRel) {
            self.lanes().for_each(|lane| lane.flush(self.site.options.produce_timeout));
        }
    }
}

fn taken((partition, timestamp): (Partition, TimestampMs)) -> Produced {
    Produced { partition, offset: Offset(0), timestamp }
}

pub(super) fn not_written(why: NotWritten, reason: &str) -> ProduceError {
    ProduceError::NotWritten(why, reason.to_owned())
}

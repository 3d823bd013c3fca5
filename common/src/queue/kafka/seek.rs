//! Looking for a topic that is not known, while its messages wait; and making it, where that is wanted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::producer::Producer as _;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::debug;

use super::intake::{Intake, MISSING_AFTER, not_written};
use super::native::Description;
use super::topics::{Enlisted, Known, Pending, Standing};
use crate::ids::Topic;
use crate::queue::{NotWritten, ProduceError};

impl Intake {
    pub(super) fn seek(self: &Arc<Self>, pending: Pending, now: Instant) {
        let topic = pending.message.topic.clone();
        let enlisted = self.topics_mut().enlist(pending, now);
        self.enlisted(topic, enlisted);
    }

    fn enlisted(self: &Arc<Self>, topic: Topic, enlisted: Enlisted) {
        match enlisted {
            Enlisted::Waits => {}
            Enlisted::LookFor => drop(self.runtime.spawn(Arc::clone(self).look_for(topic))),
            Enlisted::Known(known, pending) => self.send(known, pending),
            Enlisted::Full(pending) => {
                let reason = "as many messages wait for topics to be found as may wait";
                pending.waiting.tell(Err(not_written(NotWritten::LocalQueueFull, reason)));
            }
        }
    }

    /// Until there is an answer, or nobody waits for it any more.
    async fn look_for(self: Arc<Self>, topic: Topic) {
        let mut unclear = match self.site.health.trouble() {
            None => not_written(NotWritten::Unavailable, &format!("topic {topic} is not served yet")),
            Some(_) => not_written(NotWritten::Unavailable, &self.cluster.silent().to_string()),
        };
        // Whoever waits is told before they give up, and what they are told is certain.
        let patience = self.site.options.produce_timeout.mul_f64(0.7);
        let refusal = match timeout(patience, self.find(&topic, &mut unclear)).await {
            Ok(Ok(())) => return,
            Ok(Err(refusal)) => refusal,
            Err(_) => unclear,
        };
        let given_up = self.topics_mut().give_up(&topic);
        for pending in given_up {
            pending.waiting.tell(Err(refusal.clone()));
        }
    }

    /// Until everybody who waited for the topic has been told, or served. An error is for all of them.
    async fn find(self: &Arc<Self>, topic: &Topic, unclear: &mut ProduceError) -> Result<(), ProduceError> {
        let (began, mut pause) = (Instant::now(), Duration::from_millis(20));
        let mut create = self.site.options.auto_create_topics;
        loop {
            match self.cluster.describe(topic).await {
                Ok(Some(found)) if self.hand_over(topic, &found) => return Ok(()),
                Ok(Some(_)) => self.remind_client(topic).await,
                Ok(None) if create => {
                    self.create(topic).await?;
                    create = false;
                }
                Ok(None) if self.is_missing(topic, began) => {
                    self.lost(topic);
                    return Ok(());
                }
                Ok(None) => {}
                Err(error) => *unclear = not_written(NotWritten::Unavailable, &error.to_string()),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// The cluster has said for a while that there is none. One that was just made may not be seen yet.
    fn is_missing(&self, topic: &Topic, began: Instant) -> bool {
        !self.site.options.auto_create_topics && began.elapsed() >= MISSING_AFTER && self.topics().known(topic).is_none()
    }

    /// Everything that waited goes to the client, in order, before anybody sees the topic as known.
    /// `false`: the client does not know the topic yet.
    fn hand_over(self: &Arc<Self>, topic: &Topic, found: &Description) -> bool {
        let now = Instant::now();
        let mut topics = self.topics_mut();
        let limit = topics.known(topic).and_then(|known| known.limit);
        let known = Known { partitions: found.partitions, id: found.id, seen: now, limit };
        let mut waiting = topics.take_waiting(topic).into_iter();
        while let Some(pending) = waiting.next() {
            if let Some(pending) = self.try_send(known, pending) {
                topics.put_back(topic, std::iter::once(pending).chain(waiting).collect());
                return false;
            }
        }
        topics.establish(topic, found, now);
        drop(topics);
        self.changed();
        true
    }

    /// Its own knowledge of topics may be older than ours.
    pub(super) async fn remind_client(&self, topic: &Topic) {
        let (client, name) = (self.lane().client(), topic.as_str().to_owned());
        let asked = spawn_blocking(move || client.client().fetch_metadata(Some(&name), Duration::from_secs(1)).map(drop)).await;
        debug!(%topic, ?asked, "the Kafka producer was asked to look for a topic that it did not know");
    }

    /// The client says that it does not know a topic, or a partition, that we know.
    pub(super) fn reintroduce(self: &Arc<Self>, pending: Pending) {
        let (topic, now) = (pending.message.topic.clone(), Instant::now());
        let (first, enlisted) = {
            let mut topics = self.topics_mut();
            let first = matches!(topics.standing(&topic, now), Standing::Known(_));
            topics.doubt(&topic);
            (first, topics.enlist(pending, now))
        };
        if first {
            self.runtime.spawn(Arc::clone(self).look_for(topic.clone()));
        }
        self.enlisted(topic, enlisted);
    }
}

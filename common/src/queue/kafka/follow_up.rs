//! What becomes of messages that Kafka refused, once more is known.

use std::sync::Arc;
use std::time::Instant;

use foldhash::{HashMap, HashMapExt};
use tokio::sync::mpsc;

use super::intake::{Intake, not_written};
use super::native::Persisted;
use super::outcome;
use super::producer::{FollowUp, Waiting};
use crate::ids::{Partition, Topic};
use crate::queue::{NotWritten, ProduceError};
use crate::record::Message;
use rdkafka::error::RDKafkaErrorCode;

const AT_ONCE: usize = 10_000;
/// Told to producers where the topic's own limit cannot be asked for: Kafka's default.
const DEFAULT_LIMIT_BYTES: usize = 1_048_588;

type Lost = (Option<Partition>, Persisted, Waiting);

/// Ends when the queue is gone.
pub(super) async fn run(intake: std::sync::Weak<Intake>, mut reports: mpsc::UnboundedReceiver<FollowUp>) {
    let mut batch = Vec::new();
    while reports.recv_many(&mut batch, AT_ONCE).await > 0 {
        let Some(intake) = intake.upgrade() else { return };
        let mut lost: HashMap<Topic, Vec<Lost>> = HashMap::new();
        let mut too_large: HashMap<Topic, Vec<(usize, Waiting)>> = HashMap::new();
        for follow_up in batch.drain(..) {
            match follow_up {
                FollowUp::Alone(message, waiting) => send_alone(&intake, &message, waiting),
                FollowUp::AskForTopic { topic, partition, persisted, waiting } => {
                    lost.entry(topic).or_default().push((partition, persisted, waiting));
                }
                FollowUp::TooLarge { topic, size, waiting } => too_large.entry(topic).or_default().push((size, waiting)),
            }
        }
        // One question a topic, however many messages.
        for (topic, lost) in lost {
            tokio::spawn(ask_for_topic(Arc::clone(&intake), topic, lost));
        }
        for (topic, refused) in too_large {
            tokio::spawn(ask_for_limit(Arc::clone(&intake), topic, refused));
        }
    }
}

fn send_alone(intake: &Intake, message: &Message, waiting: Waiting) {
    match intake.alone() {
        Ok(lane) => {
            if let Err((code, waiting)) = lane.send(message, waiting) {
                waiting.tell(Err(outcome::of(code, Persisted::No, &message.topic)));
            }
        }
        Err(error) => waiting.tell(Err(not_written(NotWritten::Unavailable, &error.to_string()))),
    }
}

async fn ask_for_limit(intake: Arc<Intake>, topic: Topic, refused: Vec<(usize, Waiting)>) {
    let limit = intake.cluster.limit_bytes(&topic).await;
    if let Some(limit) = limit {
        intake.topics_mut().limit(&topic, limit, Instant::now());
    }
    for (size, waiting) in refused {
        waiting.tell(Err(ProduceError::TooLarge { size, limit: limit.unwrap_or(DEFAULT_LIMIT_BYTES) }));
    }
}

async fn ask_for_topic(intake: Arc<Intake>, topic: Topic, lost: Vec<Lost>) {
    let found = intake.describe_surely(&topic).await;
    // What was there is gone only once the cluster has not listed it for a while: see `watch`.
    let gone = matches!(found, Ok(None)) && intake.topics().known(&topic).is_none();
    for (partition, persisted, waiting) in lost {
        waiting.tell(Err(match (&found, partition) {
            _ if gone => ProduceError::UnknownTopic(topic.clone()),
            (Ok(Some(found)), Some(partition)) if partition.0 >= found.partitions => {
                ProduceError::UnknownPartition { topic: topic.clone(), partition, partitions: found.partitions }
            }
            _ => outcome::of(RDKafkaErrorCode::LeaderNotAvailable, persisted, &topic),
        }));
    }
}

//! Keeping what is known of topics, and of the cluster's health, up to date.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use foldhash::{HashMap, HashSet};
use tracing::{info, warn};

use super::intake::Intake;
use crate::ids::Topic;
use crate::queue::{QueueError, TopicInfo};

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// So many topics later, it is looked half as often, and so on: an answer has a hundred bytes a topic and more.
const TOPICS_A_LOOK: usize = 2_000;
const LOOKS: u32 = 2;
const LOOKS_OF_NOTHING: u32 = 6;

/// What the last look said.
pub(super) struct Health(Mutex<Option<String>>);

impl Health {
    pub(super) fn unknown(brokers: &[String]) -> Self {
        Self(Mutex::new(Some(format!("Kafka at {} has not answered yet", brokers.join(",")))))
    }

    pub(super) fn missing(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn set(&self, trouble: Option<String>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*state, &trouble) {
            (Some(_), None) => info!("Kafka answers"),
            (None, Some(trouble)) => warn!("{trouble}; it is asked again every {LOOK_EVERY:?}"),
            _ => {}
        }
        *state = trouble;
    }
}

/// Ends when the queue is gone.
pub(super) async fn run(intake: Weak<Intake>, health: Arc<Health>) {
    let mut missing = HashMap::default();
    loop {
        let Some(intake) = intake.upgrade() else { return };
        let topics = match look(&intake).await {
            Ok(found) => {
                health.set(None);
                missing = forget_missing(&intake, &found, &missing);
                found.len()
            }
            Err(error) => {
                health.set(Some(error.to_string()));
                0
            }
        };
        drop(intake);
        // In trouble, its end is to be seen soon.
        let pause = if health.missing().is_empty() { LOOK_EVERY } else { LOOK_EVERY / 5 };
        tokio::time::sleep(pause * u32::try_from(1 + topics / TOPICS_A_LOOK).unwrap_or(u32::MAX)).await;
    }
}

/// Every topic, remembered.
pub(super) async fn look(intake: &Intake) -> Result<Vec<TopicInfo>, QueueError> {
    let names = intake.cluster.names().await?;
    let found = intake.cluster.describe_all(&names).await?;
    let mut infos = Vec::with_capacity(names.len());
    for (topic, found) in names.into_iter().zip(found) {
        if let Ok(Some(found)) = found {
            intake.learned(&topic, &found);
            infos.push(TopicInfo { topic, id: found.id, partitions: found.partitions });
        }
    }
    Ok(infos)
}

/// What some looks in a row did not find is gone: a broker that has just started may know less than
/// there is, at first nothing at all.
fn forget_missing(intake: &Intake, found: &[TopicInfo], missing_before: &HashMap<Topic, u32>) -> HashMap<Topic, u32> {
    let enough = if found.is_empty() { LOOKS_OF_NOTHING } else { LOOKS };
    let found: HashSet<&Topic> = found.iter().map(|info| &info.topic).collect();
    let known = intake.topics().known_topics();
    let missing = known.into_iter().filter(|topic| !found.contains(topic));
    let missing: HashMap<Topic, u32> = missing.map(|topic| (topic.clone(), 1 + missing_before.get(&topic).unwrap_or(&0))).collect();
    for (topic, looks) in &missing {
        if *looks >= enough {
            info!(%topic, "the topic is gone from Kafka");
            intake.lost(topic);
        }
    }
    missing
}

//! Keeping what is known of topics, and of the cluster's health, up to date.

use std::sync::{Arc, Weak};
use std::time::Duration;

use foldhash::{HashMap, HashSet};
use tokio::time::{sleep, timeout};
use tracing::info;

use super::intake::Intake;
use super::readers::Desk;
use super::site::Site;
use crate::ids::Topic;
use crate::queue::{QueueError, TopicInfo};

const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOK_IN_TROUBLE_EVERY: Duration = Duration::from_secs(1);
/// So many topics later, it is looked half as often, and so on: an answer has a hundred bytes a topic and more.
const TOPICS_A_LOOK: usize = 2_000;
const LOOKS: u32 = 2;
const LOOKS_OF_NOTHING: u32 = 6;

/// Keeps looking, until the queue is gone.
pub(super) async fn run(intake: Weak<Intake>, site: Arc<Site>) {
    let mut missing = HashMap::default();
    let mut in_time = true;
    loop {
        let Some(intake) = intake.upgrade() else { return };
        let topics = match look(&intake).await {
            Ok(found) => {
                site.answers();
                if in_time {
                    missing = forget_missing(&intake, &found, &missing);
                }
                found.len()
            }
            Err(error) => {
                site.fails(error.to_string());
                0
            }
        };
        intake.spare_statistics();
        drop(intake);
        if site.health.is_well() {
            let pause = LOOK_EVERY * u32::try_from(1 + topics / TOPICS_A_LOOK).unwrap_or(u32::MAX);
            // Trouble is to be seen soon, and so is its end.
            in_time = timeout(pause, site.health.all_down()).await.is_err();
        } else {
            sleep(LOOK_IN_TROUBLE_EVERY).await;
        }
    }
}

/// Reads the brokers where they register, while none of the known ones answers, and tells the
/// clients, until the queue is gone.
pub(super) async fn seek_brokers(intake: Weak<Intake>, site: Arc<Site>, readers: Desk) {
    loop {
        site.health.in_trouble().await;
        site.brokers.look_up().await;
        let Some(intake) = intake.upgrade() else { return };
        let brokers = site.brokers.list();
        if !brokers.is_empty() {
            intake.introduce(&brokers);
            readers.introduce(brokers);
        }
        drop(intake);
        sleep(LOOK_IN_TROUBLE_EVERY).await;
    }
}

/// Every topic, remembered.
pub(super) async fn look(intake: &Arc<Intake>) -> Result<Vec<TopicInfo>, QueueError> {
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

//! The data folder, opened: one store, or two where cursors are kept apart from messages.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use common::config::{Config, CoordinatorConfig, GroupConfig, QueueConfig};
use common::coordinator::embedded::EmbeddedCoordinator;
use common::ids::{GroupName, Offset, Partition, Topic, TopicId};
use common::queue::embedded::{EmbeddedQueue, Needs, Options};
use common::store::Store;
use prometheus_client::registry::Registry;
use pusher::GroupSetup;
use tracing::error;

use crate::failure::Failure;

pub(super) struct Backends {
    pub(super) queue: Arc<EmbeddedQueue>,
    pub(super) coordinator: Arc<EmbeddedCoordinator>,
}

impl Backends {
    /// Blocks on the disk, after a crash for as long as reading the journals takes.
    pub(super) fn open(config: &Config, registry: &mut Registry) -> Result<Self, Failure> {
        let (QueueConfig::Embedded(embedded), CoordinatorConfig::Embedded { dir }) = (&config.queue, &config.coordinator) else {
            return Err(Failure::usage("`standalone` on a Kafka queue comes with the next commit; leave `queue.kafka` out"));
        };
        let messages = Store::open(&embedded.dir).map_err(Failure::failed)?;
        let cursors = if same_folder(&embedded.dir, dir) { messages.clone() } else { Store::open(dir).map_err(Failure::failed)? };
        let coordinator = Arc::new(EmbeddedCoordinator::open(&cursors).map_err(Failure::failed)?);
        let queue = EmbeddedQueue::open(messages, Options::from(embedded), registry).map_err(Failure::failed)?;
        queue.set_needs(Arc::new(Undelivered { coordinator: coordinator.clone(), groups: groups_by_topic(&config.groups) }));
        Ok(Self { queue, coordinator })
    }

    /// All groups are on the same two.
    pub(super) fn setups(&self, groups: &[GroupConfig]) -> Vec<GroupSetup> {
        let (queue, coordinator) = (&self.queue, &self.coordinator);
        groups.iter().map(|config| GroupSetup { config: config.clone(), queue: queue.clone(), coordinator: coordinator.clone() }).collect()
    }
}

/// However the two are spelt; a folder that does not exist yet is not the one that was just made.
fn same_folder(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn groups_by_topic(groups: &[GroupConfig]) -> HashMap<Topic, Vec<GroupName>> {
    let mut by_topic: HashMap<Topic, Vec<GroupName>> = HashMap::new();
    for group in groups {
        for topic in &group.topics {
            by_topic.entry(topic.clone()).or_default().push(group.group.clone());
        }
    }
    by_topic
}

/// What retention must spare: the queue knows no groups, the coordinator no ages.
struct Undelivered {
    coordinator: Arc<EmbeddedCoordinator>,
    groups: HashMap<Topic, Vec<GroupName>>,
}

impl Needs for Undelivered {
    fn lowest_needed(&self, topic: &Topic, topic_id: TopicId, partition: Partition) -> Option<Offset> {
        let groups = self.groups.get(topic)?;
        self.coordinator.lowest_cursor(groups, topic, partition, topic_id).unwrap_or_else(|error| {
            error!(%topic, %partition, %error, "the cursors cannot be read: retention keeps everything of this partition");
            Some(Offset(0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_the_same_however_it_is_spelt() {
        let folder = tempfile::tempdir().unwrap();
        assert!(same_folder(folder.path(), &folder.path().join(".")));
        assert!(!same_folder(folder.path(), &folder.path().join("new")));
        assert!(!same_folder(folder.path(), "/".as_ref()));
    }
}

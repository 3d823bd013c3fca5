//! The data folder, opened: one store, or two where cursors are kept apart from messages.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use common::config::{Config, CoordinatorConfig, GroupConfig, QueueConfig, Role};
use common::coordinator::{Coordinator, EmbeddedCoordinator};
use common::ids::{GroupName, Offset, Partition, Topic, TopicId};
use common::queue::Queue;
use common::queue::embedded::{EmbeddedQueue, Needs, Options};
use common::store::Store;
use prometheus_client::registry::Registry;
use tracing::error;

use crate::failure::Failure;

/// What lies in a folder of this machine; either may be elsewhere.
pub(super) struct Embedded {
    queue: Option<Arc<EmbeddedQueue>>,
    coordinator: Option<Arc<EmbeddedCoordinator>>,
}

impl Embedded {
    pub(super) fn open(config: &Config, registry: &mut Registry) -> Result<Self, Failure> {
        let messages = match &config.queue {
            QueueConfig::Embedded(queue) => Some((Store::open(&queue.dir).map_err(Failure::failed)?, queue)),
            QueueConfig::Kafka(_) => None,
        };
        let cursors = match &config.coordinator {
            CoordinatorConfig::Embedded { dir } if config.role != Role::Proxy => Some(match &messages {
                Some((store, queue)) if same_folder(&queue.dir, dir) => store.clone(),
                _ => Store::open(dir).map_err(Failure::failed)?,
            }),
            CoordinatorConfig::Embedded { .. } | CoordinatorConfig::ZooKeeper(_) => None,
        };
        let coordinator = cursors.map(|cursors| EmbeddedCoordinator::open(&cursors)).transpose().map_err(Failure::failed)?.map(Arc::new);
        let queue = messages.map(|(store, queue)| EmbeddedQueue::open(store, Options::from(queue), registry));
        Ok(Self { queue: queue.transpose().map_err(Failure::failed)?, coordinator })
    }

    pub(super) fn queue(&self) -> Arc<dyn Queue> {
        self.queue.clone().expect("without brokers the configuration names the embedded queue")
    }

    pub(super) fn coordinator(&self) -> Arc<dyn Coordinator> {
        self.coordinator.clone().expect("without an ensemble the configuration names the embedded coordinator")
    }

    /// From now on retention spares what these groups have not passed.
    pub(super) fn serves(&self, groups: &[GroupConfig]) {
        if let (Some(queue), Some(coordinator)) = (&self.queue, &self.coordinator) {
            queue.set_needs(Arc::new(Undelivered { coordinator: coordinator.clone(), groups: groups_by_topic(groups) }));
        }
    }

    pub(super) async fn shutdown(self) {
        if let Some(queue) = self.queue {
            queue.shutdown().await;
        }
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

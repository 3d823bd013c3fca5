//! What must stand before a process joins the fleet.

use std::sync::Arc;

use common::config::GroupConfig;
use common::coordinator::{CoordinatorError, Member};
use common::ids::{GroupName, Topic};
use common::queue::{CreateTopicError, Queue, QueueError};
use tracing::info;

use crate::births::{self, BackendError};
use crate::group::{Backends, Group};

/// Of a dead-letter topic made here while none of its group's topics exists.
const DEAD_LETTER_PARTITIONS: u32 = 4;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    /// To be tried again.
    #[error(transparent)]
    Backend(BackendError),
    #[error(transparent)]
    Taken(CoordinatorError),
    #[error("group {group}: dead-letter topic {topic} does not exist and cannot be made: {reason}")]
    DeadLetterTopic { group: GroupName, topic: Topic, reason: CreateTopicError },
}

impl<E: Into<BackendError>> From<E> for PrepareError {
    fn from(error: E) -> Self {
        match error.into() {
            BackendError::Coordinator(taken @ CoordinatorError::InstanceTaken(_)) => Self::Taken(taken),
            error => Self::Backend(error),
        }
    }
}

/// Births of every group, its dead-letter topic, then the fleet.
pub(crate) async fn prepare(groups: &[Arc<Group>], backends: &Backends, me: &Member) -> Result<(), PrepareError> {
    let Backends { queue, coordinator, .. } = backends;
    for config in groups.iter().map(|group| &group.config) {
        births::write_all(config, &**queue, &**coordinator).await?;
        if let Some(topic) = &config.dead_letter_topic {
            dead_letter_topic(config, topic, &**queue).await?;
        }
    }
    Ok(coordinator.join(me.clone()).await?)
}

/// Made here if it is missing: a bypass must not be the first to find out that it cannot be.
async fn dead_letter_topic(config: &GroupConfig, topic: &Topic, queue: &dyn Queue) -> Result<(), PrepareError> {
    if queue.topic(topic).await?.is_some() {
        return Ok(());
    }
    let partitions = partitions_like(config, queue).await?;
    match queue.create_topic(topic, partitions).await {
        Ok(info) => {
            info!(group = %config.group, topic = %info.topic, partitions, "the dead-letter topic did not exist; it was made");
            Ok(())
        }
        Err(CreateTopicError::Exists(_)) => Ok(()),
        Err(CreateTopicError::Queue(error)) => Err(error.into()),
        Err(reason) => Err(PrepareError::DeadLetterTopic { group: config.group.clone(), topic: topic.clone(), reason }),
    }
}

/// As many as the largest topic whose records may end there.
async fn partitions_like(config: &GroupConfig, queue: &dyn Queue) -> Result<u32, QueueError> {
    let mut most = None;
    for topic in &config.topics {
        most = most.max(queue.topic(topic).await?.map(|info| info.partitions));
    }
    Ok(most.unwrap_or(DEAD_LETTER_PARTITIONS))
}

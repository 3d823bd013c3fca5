//! What must stand before this process joins a fleet for a group.

use std::time::Duration;

use common::config::GroupConfig;
use common::coordinator::CoordinatorError;
use common::ids::{GroupName, Topic};
use common::queue::{CreateTopicError, Queue, QueueError};
use tracing::{error, info, warn};

use crate::backoff::Backoff;
use crate::births::{self, BackendError};
use crate::group::Group;

/// The longest pause between tries.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Between tries of what is wrong for good.
const PAUSE_FOR_GOOD: Duration = Duration::from_secs(30);
/// Of a dead-letter topic made here while none of its group's topics exists.
const DEAD_LETTER_PARTITIONS: u32 = 4;

/// Why a pusher cannot serve, for good.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("group {group}: {reason}")]
    Group { group: GroupName, reason: String },
    #[error("group {group}: dead-letter topic {topic} does not exist and cannot be made: {reason}")]
    DeadLetterTopic { group: GroupName, topic: Topic, reason: CreateTopicError },
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
    #[error("this pusher is shutting down")]
    ShuttingDown,
}

/// What follows from a fault that does not go away by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    /// The process ends: nobody is served yet.
    End,
    /// It is said, and tried again: others are being served.
    Wait,
}

#[derive(Debug)]
pub(crate) enum PrepareError {
    /// To be tried again.
    Backend(BackendError),
    ForGood(StartError),
}

impl<E: Into<BackendError>> From<E> for PrepareError {
    fn from(error: E) -> Self {
        Self::Backend(error.into())
    }
}

/// Tries until it is done; to be dropped when it need not be done any more.
pub(crate) async fn prepare(group: &Group, faults: Faults) -> Result<(), StartError> {
    let mut backoff = Backoff::new(MAX_PAUSE);
    let name = &group.config.group;
    loop {
        let pause = match once(group).await {
            Ok(()) => return Ok(()),
            Err(PrepareError::ForGood(error)) if faults == Faults::End => return Err(error),
            Err(PrepareError::ForGood(error)) => {
                error!(group = %name, %error, retry_in = ?PAUSE_FOR_GOOD, "the group is not served; other groups are");
                PAUSE_FOR_GOOD
            }
            Err(PrepareError::Backend(error)) => {
                let pause = backoff.step();
                warn!(group = %name, %error, retry_in = ?pause, "the group cannot begin yet: where it starts could not be read or written; it is tried again");
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Its births and its dead-letter topic.
pub(crate) async fn once(group: &Group) -> Result<(), PrepareError> {
    let (config, queue) = (&group.config, &*group.cluster.queue);
    let _turn = group.cluster.preparing.acquire().await;
    if let Some(topic) = &config.dead_letter_topic {
        dead_letter_topic(config, topic, queue).await?;
    }
    Ok(births::write_all(config, queue, &*group.coordinator).await?)
}

/// Made here if it is missing: a bypass must not be the first to find out that it cannot be.
pub(crate) async fn dead_letter_topic(config: &GroupConfig, topic: &Topic, queue: &dyn Queue) -> Result<(), PrepareError> {
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
        Err(reason) => {
            Err(PrepareError::ForGood(StartError::DeadLetterTopic { group: config.group.clone(), topic: topic.clone(), reason }))
        }
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

//! What must stand before a process joins the fleet.

use std::sync::Arc;
use std::time::Duration;

use common::config::GroupConfig;
use common::coordinator::{CoordinatorError, Member};
use common::ids::{GroupName, Topic};
use common::queue::{CreateTopicError, Queue, QueueError};
use futures_util::{TryStreamExt, stream};
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::births::{self, BackendError};
use crate::group::{Backends, Group};

/// The longest pause between tries.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Groups that are prepared at one time: their births share the coordinator's transactions.
const CONCURRENCY: usize = 64;
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
}

#[derive(Debug)]
enum PrepareError {
    /// To be tried again.
    Backend(BackendError),
    ForGood(StartError),
}

impl<E: Into<BackendError>> From<E> for PrepareError {
    fn from(error: E) -> Self {
        match error.into() {
            BackendError::Coordinator(taken @ CoordinatorError::InstanceTaken(_)) => Self::ForGood(taken.into()),
            error => Self::Backend(error),
        }
    }
}

/// Tries until it is done; to be dropped when it need not be done any more.
pub(crate) async fn prepare(groups: &[Arc<Group>], backends: &Backends, me: &Member) -> Result<(), StartError> {
    let mut backoff = Backoff::new(MAX_PAUSE);
    loop {
        let error = match try_once(groups, backends, me).await {
            Ok(()) => return Ok(()),
            Err(PrepareError::ForGood(error)) => return Err(error),
            Err(PrepareError::Backend(error)) => error,
        };
        let pause = backoff.step();
        warn!(%error, retry_in = ?pause, "cannot begin yet: where the groups start could not be read or written; it is tried again");
        tokio::time::sleep(pause).await;
    }
}

/// Births of every group, its dead-letter topic, then the fleet.
async fn try_once(groups: &[Arc<Group>], backends: &Backends, me: &Member) -> Result<(), PrepareError> {
    let Backends { queue, coordinator, .. } = backends;
    let group = |group: Arc<Group>| async move {
        births::write_all(&group.config, &**queue, &**coordinator).await?;
        match &group.config.dead_letter_topic {
            Some(topic) => dead_letter_topic(&group.config, topic, &**queue).await,
            None => Ok(()),
        }
    };
    stream::iter(groups.iter().cloned().map(Ok)).try_for_each_concurrent(CONCURRENCY, group).await?;
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

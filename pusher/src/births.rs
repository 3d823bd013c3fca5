//! Where a group starts in a topic, written down before anything of it is read.

use common::config::{GroupConfig, InitialFrom};
use common::coordinator::{Birth, Coordinator, CoordinatorError, Log};
use common::ids::{Partition, Topic};
use common::queue::{Queue, QueueError, TopicInfo, Watermarks};

/// Why something that both must answer for was not done. Both are tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackendError {
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
}

/// Writes the births of a group in all of its topics, those that do not exist yet included. What
/// is written already stays.
pub(crate) async fn write_all(group: &GroupConfig, queue: &dyn Queue, coordinator: &dyn Coordinator) -> Result<(), BackendError> {
    for topic in &group.topics {
        write(group, topic, queue, coordinator).await?;
    }
    Ok(())
}

/// The same for one topic.
pub(crate) async fn write(
    group: &GroupConfig,
    topic: &Topic,
    queue: &dyn Queue,
    coordinator: &dyn Coordinator,
) -> Result<Birth, BackendError> {
    let (birth, log) = match queue.topic(topic).await? {
        Some(info) => of_existing(group.initial_from, &info, queue).await?,
        // Every partition that the topic will have starts at its first record: the group was there before it.
        None => (Birth { topic_id: None, start: Vec::new() }, Vec::new()),
    };
    Ok(coordinator.birth(&group.group, topic, birth, &log).await?)
}

async fn of_existing(initial: InitialFrom, info: &TopicInfo, queue: &dyn Queue) -> Result<(Birth, Vec<Log>), QueueError> {
    let mut start = Vec::new();
    let mut log = Vec::new();
    for partition in (0..info.partitions).map(Partition) {
        let Watermarks { first, end } = queue.watermarks(&info.topic, partition).await?;
        start.push(match initial {
            InitialFrom::Oldest => first,
            InitialFrom::Newest => end,
            InitialFrom::Time(time) => queue.offset_for_time(&info.topic, partition, time).await?,
        });
        log.push(Log { topic_id: info.id, first, end, past_end: None });
    }
    Ok((Birth { topic_id: info.id, start }, log))
}

/// What the queue says about a partition now; `None` if it has no such partition.
pub(crate) async fn log_of(queue: &dyn Queue, topic: &Topic, partition: Partition) -> Result<Option<Log>, QueueError> {
    // The id before the watermarks: should the topic be created anew in between, the cursor is
    // judged by the new log under the old id, which the next look corrects. The other way round
    // the old log's first offset would be taken for the new one's, and records be passed over.
    let Some(info) = queue.topic(topic).await?.filter(|info| partition.0 < info.partitions) else { return Ok(None) };
    match queue.watermarks(topic, partition).await {
        Ok(Watermarks { first, end }) => Ok(Some(Log { topic_id: info.id, first, end, past_end: None })),
        Err(QueueError::UnknownTopic(_) | QueueError::UnknownPartition(..)) => Ok(None),
        Err(error) => Err(error),
    }
}

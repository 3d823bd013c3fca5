//! `POST groups/{group}/replay`: cursors of a whole group, moved at once and written down before it is answered.

use axum::Json;
use axum::extract::State;
use common::admin::Path;
use common::coordinator::{CoordinatorError, Replay, ReplayTarget, Replayed};
use common::ids::{GroupPartition, Offset};
use common::problem::{Kind, Problem};
use common::queue::QueueError;
use common::record::TimestampMs;
use futures_util::{StreamExt, TryStreamExt, stream};
use tracing::{info, warn};

use super::groups::{all_partitions, find};
use super::view::{MovedCursor, ReplayAnswer, ReplayRequest};
use super::{Admin, coordinator_refused, queue_refused};
use crate::group::Group;

/// Questions to the queue that are open at one time.
const CONCURRENCY: usize = 64;
const MAX_ID_CHARS: usize = 256;

/// Every target is known before anything is written; the answer comes once all of it is.
pub(super) async fn replay(
    State(admin): State<Admin>,
    Path(name): Path<String>,
    common::admin::Json(request): common::admin::Json<ReplayRequest>,
) -> Result<Json<ReplayAnswer>, Problem> {
    let group = find(&admin, &name)?.group;
    let ReplayRequest { from, offsets, id, dry_run } = request;
    let id = id.map_or_else(|| Ok(uuid::Uuid::new_v4().to_string()), legal_id)?;
    let targets = match (from, offsets) {
        (Some(from), None) => at_time(&group, parse(&from)?).await?,
        (None, Some(offsets)) => {
            at_offsets(&group, offsets.into_iter().flat_map(|(topic, of)| of.into_iter().map(move |to| (topic.clone(), to)))).await?
        }
        (Some(_), Some(_)) | (None, None) => return Err(malformed("either from (a time) or offsets is asked for, and not both")),
    };
    if targets.is_empty() {
        return Err(malformed("there is nothing to move: no partition is named, or none of the group's topics exists"));
    }
    let replay = Replay { group: group.config.group.clone(), id, asked_at: common::clock::now_ms(), targets };
    let replayed = if dry_run { would(&group, &replay).await } else { group.coordinator.replay(&replay).await };
    let replayed = replayed.map_err(|error| refused(&error))?;
    if !dry_run {
        announce(&replay, &replayed);
    }
    let Replay { id, targets, .. } = replay;
    let (repeated, moved) = match replayed {
        Replayed::Repeated => (true, Vec::new()),
        Replayed::Moved(moved) => (false, moved),
    };
    let cursor = |(target, (old, new)): (ReplayTarget, (Option<Offset>, Offset))| MovedCursor {
        topic: target.topic,
        partition: target.partition.0,
        old: old.map(|old| old.0),
        new: new.0,
    };
    Ok(Json(ReplayAnswer { group: name, id, repeated, dry_run, partitions: targets.into_iter().zip(moved).map(cursor).collect() }))
}

fn malformed(detail: impl Into<std::borrow::Cow<'static, str>>) -> Problem {
    Problem::new(Kind::Malformed, detail)
}

/// What cannot be one transaction is the caller's to split.
fn refused(error: &CoordinatorError) -> Problem {
    match error {
        CoordinatorError::Refused(_) => malformed(error.to_string()),
        CoordinatorError::Unavailable(_) | CoordinatorError::InstanceTaken(_) => coordinator_refused(error),
    }
}

fn legal_id(id: String) -> Result<String, Problem> {
    let legal = (1..=MAX_ID_CHARS).contains(&id.len()) && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-'));
    if legal { Ok(id) } else { Err(malformed(format!("an id is 1 to {MAX_ID_CHARS} of A-Z a-z 0-9 _ : -"))) }
}

/// Before 1970 is the beginning: to a queue, negative times mean something else.
fn parse(from: &str) -> Result<TimestampMs, Problem> {
    let time: jiff::Timestamp = from
        .parse()
        .map_err(|error| malformed(format!("from is a time such as 2026-11-28T00:00:00Z (RFC 3339), not {from:?}: {error}")))?;
    Ok(time.as_millisecond().max(0))
}

/// In every partition the first record of that time or later; the end where there is none.
async fn at_time(group: &Group, time: TimestampMs) -> Result<Vec<ReplayTarget>, Problem> {
    let all = all_partitions(group).await?;
    let target = |at: GroupPartition| async move {
        let place = format!("topic {} partition {}", at.topic, at.partition);
        let found = async {
            let to = group.cluster.queue.offset_for_time(&at.topic, at.partition, time).await?;
            with_topic_id(group, at, to).await
        };
        found.await.map_err(|error| unknown_target(&place, &error))
    };
    stream::iter(all).map(target).buffered(CONCURRENCY).try_collect().await
}

/// One of many partitions is in the way of all.
fn unknown_target(place: &str, error: &QueueError) -> Problem {
    let mut problem = queue_refused(error);
    problem.detail = format!("nothing was moved, for {place} cannot be asked: {}", problem.detail).into();
    problem
}

async fn at_offsets(group: &Group, offsets: impl Iterator<Item = (common::ids::Topic, (u32, u64))>) -> Result<Vec<ReplayTarget>, Problem> {
    let target = |(topic, (partition, to)): (common::ids::Topic, (u32, u64))| async move {
        if !group.config.topics.contains(&topic) {
            return Err(Problem::new(Kind::UnknownTopic, format!("the group does not read topic {topic}")));
        }
        let at = GroupPartition { group: group.config.group.clone(), topic, partition: common::ids::Partition(partition) };
        let log = group.cluster.queue.watermarks(&at.topic, at.partition).await.map_err(|error| queue_refused(&error))?;
        if !(log.first.0..=log.end.0).contains(&to) {
            let (topic, first, end) = (&at.topic, log.first, log.end);
            return Err(malformed(format!(
                "offset {to} of topic {topic} partition {partition} is outside of the log, which has {first}..{end}"
            )));
        }
        with_topic_id(group, at, Offset(to)).await.map_err(|error| queue_refused(&error))
    };
    stream::iter(offsets).map(target).buffered(CONCURRENCY).try_collect().await
}

async fn with_topic_id(group: &Group, at: GroupPartition, to: Offset) -> Result<ReplayTarget, QueueError> {
    let info = group.cluster.queue.topic(&at.topic).await?.ok_or_else(|| QueueError::UnknownTopic(at.topic.clone()))?;
    Ok(ReplayTarget { topic: at.topic, partition: at.partition, to, topic_id: info.id })
}

/// What a replay would do now.
async fn would(group: &Group, replay: &Replay) -> Result<Replayed, CoordinatorError> {
    common::coordinator::control::check(replay)?;
    if group.coordinator.control(&replay.group).await?.has_seen(&replay.id) {
        return Ok(Replayed::Repeated);
    }
    let at =
        |target: &ReplayTarget| GroupPartition { group: replay.group.clone(), topic: target.topic.clone(), partition: target.partition };
    let standing = group.coordinator.standing(&replay.targets.iter().map(at).collect::<Vec<_>>()).await?;
    let old = standing.into_iter().map(|standing| standing.progress.map(|progress| progress.cursor));
    Ok(Replayed::Moved(old.zip(replay.targets.iter().map(|target| target.to)).collect()))
}

fn announce(replay: &Replay, replayed: &Replayed) {
    let Replayed::Moved(moved) = replayed else { return };
    info!(group = %replay.group, id = replay.id, partitions = moved.len(), "an operator moved the group's cursors; owners take it up");
    for (target, (old, new)) in replay.targets.iter().zip(moved) {
        if let Some(old) = old.filter(|old| old < new) {
            warn!(group = %replay.group, topic = %target.topic, partition = target.partition.0, from = old.0, to = new.0,
                "the replay passes over what was between, as far as it was not delivered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_out_and_never_a_number() {
        assert_eq!(parse("2023-11-14T22:13:20Z").unwrap(), 1_700_000_000_000);
        assert_eq!(parse("2023-11-14T23:13:20.5+01:00").unwrap(), 1_700_000_000_500);
        assert_eq!(parse("1969-12-31T00:00:00Z").unwrap(), 0);
        for wrong in ["1700000000", "1700000000000000", "-1", "yesterday", "2023-11-14", "2023-11-14T22:13:20", ""] {
            assert_eq!(parse(wrong).unwrap_err().kind, Kind::Malformed, "{wrong}");
        }
    }

    #[test]
    fn an_id_is_short_and_plain() {
        assert!(legal_id("2026-11-28:fix_1".into()).is_ok());
        for wrong in [String::new(), "a b".into(), "é".into(), "x".repeat(257)] {
            assert!(legal_id(wrong).is_err());
        }
    }
}

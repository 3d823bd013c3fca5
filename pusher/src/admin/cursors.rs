//! `GET groups/{group}/cursors`: what stands in the store, whoever owns it.

use axum::Json;
use axum::extract::State;
use common::admin::Path;
use common::coordinator::Standing;
use common::ids::GroupPartition;
use common::problem::Problem;

use super::groups::{PATIENCE, all_partitions, find};
use super::view::{CursorList, CursorView};
use super::{Admin, coordinator_refused};
use crate::readout::{ends_of, lag};

/// Done runs that are shown of a partition, at most.
const MAX_RUNS: usize = 100;

pub(super) async fn list(State(admin): State<Admin>, Path(name): Path<String>) -> Result<Json<CursorList>, Problem> {
    let group = find(&admin, &name)?.group;
    let all = all_partitions(&group).await?;
    let standing = group.coordinator.standing(&all).await.map_err(|error| coordinator_refused(&error))?;
    let ends = ends_of(&group, all.iter().map(|at| (at.topic.clone(), at.partition)).collect(), PATIENCE).await;
    let view = |(at, standing): (GroupPartition, Standing)| {
        let end = ends.get(&(at.topic.clone(), at.partition)).copied();
        let cursor = standing.progress.as_ref().map(|progress| progress.cursor);
        let runs = standing.progress.as_ref().map_or(&[][..], |progress| progress.done.runs());
        CursorView {
            topic: at.topic,
            partition: at.partition.0,
            cursor: cursor.map(|cursor| cursor.0),
            done: runs.iter().take(MAX_RUNS).map(|run| [run.start, run.end - 1]).collect(),
            done_records: runs.iter().map(|run| run.end - run.start).sum(),
            end: end.map(|end| end.0),
            lag: cursor.zip(end).map(|(cursor, end)| lag(cursor, end)),
            owner: standing.owner,
        }
    };
    Ok(Json(CursorList { group: name, cursors: all.into_iter().zip(standing).map(view).collect() }))
}

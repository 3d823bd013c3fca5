//! `GET groups` and `GET groups/{group}`.

use std::collections::HashMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use common::admin::Path;
use common::coordinator::{Member, Standing};
use common::ids::{GroupPartition, Offset, Partition, Topic};
use common::problem::{Kind, Problem};
use engine::task::{Blocked, Permission, Status};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use super::policy::{policy, url};
use super::view::{GroupDetail, GroupList, GroupState, GroupSummary, LastError, Live, OldestUnfinished, PartitionView};
use super::{Admin, coordinator_refused, queue_refused};
use crate::group::Group;
use crate::keeper::Phase;
use crate::readout::{Served, ends_of, lag};
use crate::roster::Listed;

/// Groups that are read at one time.
const CONCURRENCY: usize = 8;
/// How long the ends of what others serve are waited for; what has not answered is null.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// As much work as the detail of every group: for people and dashboards, not for a tight loop.
pub(super) async fn list(State(admin): State<Admin>) -> Result<Json<GroupList>, Problem> {
    let groups = stream::iter(admin.roster.groups().to_vec()).map(|listed| summary(&admin, listed)).buffered(CONCURRENCY);
    Ok(Json(GroupList { groups: groups.try_collect().await? }))
}

async fn summary(admin: &Admin, listed: Listed) -> Result<GroupSummary, Problem> {
    // Whoever owns the others is not shown here.
    let (config, partitions) = (&listed.group.config, partitions(admin, &listed, &[]).await?);
    Ok(GroupSummary {
        group: config.group.to_string(),
        url: url(&config.url),
        topics: config.topics.clone(),
        state: state(&listed.group).await?,
        partitions: partitions.len(),
        owned: partitions.iter().filter(|partition| partition.live.is_some()).count(),
        lag: partitions.iter().filter_map(|partition| partition.lag).sum(),
    })
}

pub(super) async fn detail(State(admin): State<Admin>, Path(name): Path<String>) -> Result<Json<GroupDetail>, Problem> {
    let listed = find(&admin, &name)?;
    let (state, policy) = (state(&listed.group).await?, policy(&listed.group.config));
    let members = listed.group.coordinator.members().await.map_err(|error| coordinator_refused(&error))?;
    Ok(Json(GroupDetail { group: name, state, policy, partitions: partitions(&admin, &listed, &members).await? }))
}

pub(super) fn find(admin: &Admin, name: &str) -> Result<Listed, Problem> {
    admin.roster.find(name).ok_or_else(|| Problem::new(Kind::UnknownGroup, format!("group {name:?} is not configured here")))
}

/// The fleet's, as it is written; `live.blocked` says whether this process has taken it up.
async fn state(group: &Group) -> Result<GroupState, Problem> {
    let control = group.coordinator.control(&group.config.group).await.map_err(|error| coordinator_refused(&error))?;
    Ok(if control.paused { GroupState::Paused } else { GroupState::Running })
}

/// Every partition of every topic that exists, in the configured order.
pub(super) async fn all_partitions(group: &Group) -> Result<Vec<GroupPartition>, Problem> {
    let config = &group.config;
    let mut all = Vec::new();
    for topic in &config.topics {
        let info = group.cluster.queue.topic(topic).await.map_err(|error| queue_refused(&error))?;
        let numbers = (0..info.map_or(0, |info| info.partitions)).map(Partition);
        all.extend(numbers.map(|partition| GroupPartition { group: config.group.clone(), topic: topic.clone(), partition }));
    }
    Ok(all)
}

/// What is served here is known here; of the rest the coordinator is asked.
async fn partitions(admin: &Admin, listed: &Listed, members: &[Member]) -> Result<Vec<PartitionView>, Problem> {
    let all = all_partitions(&listed.group).await?;
    let mut here = Here::read(admin, &all, listed).await;
    let others: Vec<_> = all.iter().filter(|at| !here.served.contains_key(at)).cloned().collect();
    let standing = listed.group.coordinator.standing(&others).await.map_err(|error| coordinator_refused(&error))?;
    let mut standing: HashMap<_, _> = others.into_iter().zip(standing).collect();
    let of_us = || Standing { progress: None, owner: Some(admin.instance.to_string()) };
    Ok(all.iter().map(|at| here.view(at, standing.remove(at).unwrap_or_else(of_us), members, &admin.instance)).collect())
}

/// What this process knows itself about one group.
struct Here {
    served: HashMap<GroupPartition, Served>,
    phases: HashMap<GroupPartition, Phase>,
    ends: HashMap<(Topic, Partition), Offset>,
    permission: Permission,
}

impl Here {
    /// Ends of what another process serves are asked for separately: the queue is the same.
    async fn read(admin: &Admin, all: &[GroupPartition], listed: &Listed) -> Self {
        let entries = listed.entries();
        let phases = entries.iter().map(|entry| (entry.at.clone(), entry.phase())).collect();
        let served = admin.readout.served(entries).await;
        let served: HashMap<_, _> = served.into_iter().map(|served| (served.at.clone(), served)).collect();
        let others = all.iter().filter(|at| !served.contains_key(at)).map(|at| (at.topic.clone(), at.partition)).collect();
        let ends = ends_of(&listed.group, others, PATIENCE).await;
        Self { served, phases, ends, permission: listed.group.allowed.borrow().permission }
    }

    fn view(&mut self, at: &GroupPartition, standing: Standing, members: &[Member], instance: &str) -> PartitionView {
        let served = self.served.remove(at);
        let phase = self.phases.remove(at);
        let end = match &served {
            Some(served) => served.end,
            None => self.ends.get(&(at.topic.clone(), at.partition)).copied(),
        };
        // What is stored lags behind by up to a commit interval; the owner knows better.
        let live_cursor = served.as_ref().map(|served| Offset(served.status.progress.cursor.0));
        let cursor = live_cursor.or(standing.progress.map(|progress| progress.cursor));
        let elsewhere = standing.owner.as_deref().filter(|owner| *owner != instance);
        let owner_admin =
            elsewhere.and_then(|owner| members.iter().find(|member| member.instance == owner)).map(|member| member.admin.clone());
        let epoch = match phase {
            Some(Phase::Serving(epoch)) => epoch.0,
            _ => 0,
        };
        PartitionView {
            topic: at.topic.clone(),
            partition: at.partition.0,
            owner_admin,
            owner: standing.owner,
            cursor: cursor.map(|cursor| cursor.0),
            end: end.map(|end| end.0),
            lag: cursor.zip(end).map(|(cursor, end)| lag(cursor, end)),
            trouble: phase.and_then(trouble),
            live: served.map(|served| live(epoch, &served.status, self.permission)),
        }
    }
}

fn trouble(phase: Phase) -> Option<String> {
    match phase {
        Phase::Claiming { trouble } => trouble.map(|trouble| trouble.text),
        Phase::Serving(_) | Phase::Ending => None,
    }
}

fn live(epoch: u64, status: &Status, permission: Permission) -> Live {
    let oldest = status.oldest.as_ref().map(|oldest| OldestUnfinished {
        offset: oldest.offset.0,
        age_seconds: Instant::now().saturating_duration_since(oldest.since).as_secs_f64(),
        attempts: oldest.attempts,
        last_error: oldest.last_failure.as_ref().map(|failure| LastError {
            reason: failure.reason.to_owned(),
            status: failure.code,
            detail: failure.detail.clone(),
        }),
    });
    Live {
        epoch,
        in_flight: status.in_flight,
        unfinished: status.unfinished,
        unfinished_bytes: status.unfinished_bytes,
        pending_retries: status.pending_retries,
        done_set: status.done_above_cursor,
        blocked: withheld(permission).or_else(|| status.blocked.map(Blocked::name)).map(str::to_owned),
        oldest_unfinished: oldest,
    }
}

fn withheld(permission: Permission) -> Option<&'static str> {
    match permission {
        Permission::Run => None,
        Permission::Pause => Some("paused"),
        Permission::Cut => Some("lease"),
    }
}

//! Other groups without a restart. What can fail comes before what changes anything.

use std::sync::Arc;
use std::time::Duration;

use common::ids::GroupName;
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::warn;

use super::Fleets;
use crate::fleet::{Charge, FleetHandle, Order};
use crate::group::{Group, GroupSetup};
use crate::prepare::{self, Faults, PrepareError, StartError};

/// Reloads that wait for the one before.
const MAX_WAITING: usize = 16;
/// How long new groups' backends are waited for; after that their fleet goes on trying.
const PATIENCE: Duration = Duration::from_secs(5);
/// So long after the grace attempts have certainly been cut.
const AFTER_GRACE: Duration = Duration::from_secs(1);
/// Groups that are prepared at one time.
const CONCURRENCY: usize = 64;

/// What a reload has changed: the names, each in one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub added: Vec<GroupName>,
    pub removed: Vec<GroupName>,
    pub changed: Vec<GroupName>,
    /// These noticed nothing.
    pub unchanged: Vec<GroupName>,
}

/// A cheap handle by which a running pusher gets other groups.
#[derive(Clone)]
pub struct Reloader(mpsc::Sender<Request>);

pub(crate) struct Request {
    pub(crate) groups: Vec<GroupSetup>,
    pub(crate) answer: oneshot::Sender<Result<Applied, StartError>>,
}

pub(crate) type Requests = mpsc::Receiver<Request>;

impl Reloader {
    pub(crate) fn new() -> (Self, Requests) {
        let (sender, requests) = mpsc::channel(MAX_WAITING);
        (Self(sender), requests)
    }

    /// These groups from now on, and no others. Several calls are applied in their order. A group
    /// whose setup is the same (the same `Arc`s included) is not touched. One that is another under
    /// a known name keeps its cursors; its open attempts may end before it goes on as it is now,
    /// partition by partition. When this returns, every group's first attempt from now on is made
    /// as it is now, and where new groups start is written down, if their backends answered.
    ///
    /// # Errors
    /// Nothing was changed.
    pub async fn apply(&self, groups: Vec<GroupSetup>) -> Result<Applied, StartError> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Request { groups, answer }).await.map_err(|_| StartError::ShuttingDown)?;
        answered.await.unwrap_or(Err(StartError::ShuttingDown))
    }
}

impl Fleets {
    pub(crate) async fn apply(&mut self, setups: &[GroupSetup]) -> Result<Applied, StartError> {
        let groups = self.factory.groups(&self.groups, setups)?;
        let fresh: Vec<_> = groups.iter().filter(|group| !is_among(group, &self.groups)).cloned().collect();
        let prepared = try_to_prepare(&fresh).await?;
        let applied = Applied::between(&self.groups, &groups);
        self.factory.settle(&groups);
        let former = std::mem::replace(&mut self.groups, groups);
        self.direct(&former, &prepared).await;
        Ok(applied)
    }

    /// Tells every fleet what it serves now. A group goes to another fleet only after the former
    /// one has let go of it: its cursors are elsewhere, its receiver is the same.
    async fn direct(&mut self, former: &[Arc<Group>], prepared: &[Arc<Group>]) {
        let moves = |group: &Arc<Group>| {
            former.iter().any(|before| before.config.group == group.config.group && !Arc::ptr_eq(&before.coordinator, &group.coordinator))
        };
        let (moving, staying): (Vec<_>, Vec<_>) = self.groups.iter().cloned().partition(moves);
        for fleet in &self.fleets {
            fleet.order(Order::Serve(charges(&staying, prepared, fleet))).await;
        }
        for before in former.iter().filter(|before| moving.iter().any(|group| group.config.group == before.config.group)) {
            if let Some(fleet) = self.fleets.iter().find(|fleet| Arc::ptr_eq(&fleet.coordinator, &before.coordinator)) {
                // After the grace everything is cut, whether or not its coordinator answers.
                let _ = timeout(self.grace + AFTER_GRACE, fleet.let_go_of(before)).await;
            }
        }
        self.open_fleets().await;
        for fleet in self
            .fleets
            .iter()
            .filter(|fleet| moving.iter().chain(&staying).any(|group| Arc::ptr_eq(&group.coordinator, &fleet.coordinator)))
        {
            fleet.order(Order::Serve(charges(&self.groups, prepared, fleet))).await;
        }
        self.publish();
        self.sweep(former);
        self.end_fleets().await;
    }

    async fn open_fleets(&mut self) {
        for coordinator in self.coordinators() {
            if self.fleets.iter().any(|fleet| Arc::ptr_eq(&fleet.coordinator, &coordinator)) {
                continue;
            }
            // The former one leaves when it ends, which would end this one's ownerships.
            if let Some(former) = self.ending.iter().find(|fleet| Arc::ptr_eq(&fleet.coordinator, &coordinator)) {
                former.orders.closed().await;
            }
            let (fleet, handle) = self.fleet(coordinator, Faults::Wait);
            self.tasks.spawn(fleet.run(self.stop.clone()));
            self.fleets.push(handle);
        }
        self.ending.retain(|fleet| !fleet.orders.is_closed());
    }

    async fn end_fleets(&mut self) {
        let used = self.coordinators();
        let (going_on, ending): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.fleets).into_iter().partition(|fleet| used.iter().any(|used| Arc::ptr_eq(used, &fleet.coordinator)));
        self.fleets = going_on;
        for fleet in ending {
            fleet.order(Order::End).await;
            self.ending.push(fleet);
        }
    }

    /// Metrics of what is no more go once nothing writes them any more.
    fn sweep(&mut self, former: &[Arc<Group>]) {
        for group in former.iter().filter(|group| !is_among(group, &self.groups)) {
            if let Some(fleet) = self.fleets.iter().find(|fleet| Arc::ptr_eq(&fleet.coordinator, &group.coordinator)) {
                let (let_go, group) = (fleet.let_go_of(group), group.clone());
                self.gone.spawn(async move {
                    let_go.await;
                    group
                });
            }
        }
    }
}

fn charges(groups: &[Arc<Group>], prepared: &[Arc<Group>], fleet: &FleetHandle) -> Vec<Charge> {
    let ours = groups.iter().filter(|group| Arc::ptr_eq(&group.coordinator, &fleet.coordinator));
    ours.map(|group| Charge { group: group.clone(), prepared: is_among(group, prepared) }).collect()
}

/// This very one.
fn is_among(group: &Arc<Group>, groups: &[Arc<Group>]) -> bool {
    groups.iter().any(|other| Arc::ptr_eq(other, group))
}

type Prepare = fn(&Group) -> BoxFuture<'_, Result<(), PrepareError>>;

/// Those that could be prepared. What is wrong for good with any of them is found out before a start
/// is written down for the first.
async fn try_to_prepare(groups: &[Arc<Group>]) -> Result<Vec<Arc<Group>>, StartError> {
    let with_topic = in_time(groups, |group| dead_letter_topic(group).boxed()).await?;
    in_time(&with_topic, |group| prepare::once(group).boxed()).await
}

async fn dead_letter_topic(group: &Group) -> Result<(), PrepareError> {
    match &group.config.dead_letter_topic {
        Some(topic) => prepare::dead_letter_topic(&group.config, topic, &*group.cluster.queue).await,
        None => Ok(()),
    }
}

async fn in_time(groups: &[Arc<Group>], prepare: Prepare) -> Result<Vec<Arc<Group>>, StartError> {
    let one = |group: Arc<Group>| async move {
        let error = match timeout(PATIENCE, prepare(&group)).await {
            Ok(Ok(())) => return Ok(Some(group)),
            Ok(Err(PrepareError::ForGood(error))) => return Err(error),
            Ok(Err(PrepareError::Backend(error))) => error.to_string(),
            Err(_) => "its backends do not answer".to_owned(),
        };
        warn!(group = %group.config.group, error, "the group cannot begin yet; the reload goes on, and this is tried again");
        Ok(None)
    };
    let done = stream::iter(groups.to_vec()).map(one).buffer_unordered(CONCURRENCY);
    done.try_filter_map(|group| ready(Ok(group))).try_collect().await
}

impl Applied {
    fn between(before: &[Arc<Group>], now: &[Arc<Group>]) -> Self {
        let mut applied = Self::default();
        for group in now {
            let name = &group.config.group;
            let list = match before.iter().find(|before| before.config.group == *name) {
                None => &mut applied.added,
                Some(before) if Arc::ptr_eq(before, group) => &mut applied.unchanged,
                Some(_) => &mut applied.changed,
            };
            list.push(name.clone());
        }
        let gone = before.iter().map(|group| &group.config.group).filter(|name| !now.iter().any(|group| group.config.group == **name));
        applied.removed = gone.cloned().collect();
        applied
    }
}

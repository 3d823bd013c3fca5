//! The groups in a fleet's charge, each of which is served once it is prepared, whatever keeps the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use common::ids::{GroupName, Topic};
use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::Charge;
use crate::group::Group;
use crate::prepare::{Faults, StartError, prepare};

type Outcome = (Arc<Group>, Result<(), StartError>);
/// `Err`: it was not needed any more, or panicked.
pub(super) type Prepared = Result<Outcome, JoinError>;

pub(super) struct Charges {
    groups: BTreeMap<GroupName, Held>,
    preparing: JoinSet<Outcome>,
    faults: Faults,
    /// Grows whenever other groups are prepared.
    revision: u64,
}

struct Held {
    group: Arc<Group>,
    state: State,
}

enum State {
    Preparing(AbortHandle),
    Prepared,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let State::Preparing(task) = &self.state {
            task.abort();
        }
    }
}

impl Charges {
    pub(super) fn new(faults: Faults) -> Self {
        Self { groups: BTreeMap::new(), preparing: JoinSet::new(), faults, revision: 0 }
    }

    /// These and no others. What is in charge already stays as it is.
    pub(super) fn replace(&mut self, charges: Vec<Charge>) {
        let mut before = std::mem::take(&mut self.groups);
        for Charge { group, prepared } in charges {
            let name = group.config.group.clone();
            let held = match before.remove(&name).filter(|held| Arc::ptr_eq(&held.group, &group)) {
                Some(held) => held,
                None if prepared => Held { group, state: State::Prepared },
                None => self.prepare(group),
            };
            self.groups.insert(name, held);
        }
        self.revision += 1;
    }

    fn prepare(&mut self, group: Arc<Group>) -> Held {
        let (prepared, faults) = (group.clone(), self.faults);
        let task = self.preparing.spawn(async move {
            let outcome = prepare(&prepared, faults).await;
            (prepared, outcome)
        });
        Held { group, state: State::Preparing(task) }
    }

    /// For ever if there is nothing to prepare.
    pub(super) async fn next_prepared(&mut self) -> Prepared {
        match self.preparing.join_next().await {
            Some(prepared) => prepared,
            None => std::future::pending().await,
        }
    }

    pub(super) fn prepared(&mut self, prepared: Prepared) -> Result<(), StartError> {
        let Ok((group, outcome)) = prepared else { return Ok(()) };
        if let Some(held) = self.groups.get_mut(&group.config.group).filter(|held| Arc::ptr_eq(&held.group, &group)) {
            outcome?;
            held.state = State::Prepared;
            self.revision += 1;
        }
        Ok(())
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn get(&self, name: &GroupName) -> Option<&Arc<Group>> {
        self.groups.get(name).map(|held| &held.group)
    }

    /// This very one, not only one of its name.
    pub(super) fn contains(&self, group: &Arc<Group>) -> bool {
        self.get(&group.config.group).is_some_and(|charged| Arc::ptr_eq(charged, group))
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values().map(|held| &held.group)
    }

    pub(super) fn names(&self) -> Vec<GroupName> {
        self.groups.keys().cloned().collect()
    }

    pub(super) fn prepared_groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values().filter(|held| matches!(held.state, State::Prepared)).map(|held| &held.group)
    }

    /// With the number of their partitions, those of prepared groups that exist.
    pub(super) fn topics(&self, which: impl Fn(&GroupName, &Topic) -> bool) -> Vec<(GroupName, Topic, u32)> {
        let mut found = Vec::new();
        for group in self.prepared_groups() {
            let (name, Some(topics)) = (&group.config.group, group.cluster.topics()) else { continue };
            let infos = group.config.topics.iter().filter(|topic| which(name, topic)).filter_map(|topic| topics.get(topic));
            found.extend(infos.map(|info| (name.clone(), info.topic.clone(), info.partitions)));
        }
        found
    }

    pub(super) fn all_prepared(&self) -> bool {
        self.prepared_groups().count() == self.len()
    }

    /// For `/readyz`.
    pub(super) fn missing(&self) -> impl Iterator<Item = String> {
        let preparing = self.groups.iter().filter(|(_, held)| matches!(held.state, State::Preparing(_)));
        preparing.map(|(name, _)| format!("group {name} has not begun: where it starts is not written down yet"))
    }
}

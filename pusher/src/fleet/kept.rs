//! The keepers of a fleet's partitions, one for each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use common::coordinator::vacancy::Holding;
use common::ids::{Epoch, GroupName, GroupPartition};
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::{Id, JoinError, JoinSet};
use tracing::error;

use super::Shared;
use super::charges::Charges;
use super::wanted::Wanted;
use crate::directory::{Directory, Entry};
use crate::group::Group;
use crate::keeper::{Cause, Command, Keeper, KeeperHandle, Phase};

pub(super) type Ended = Result<(Id, GroupPartition), JoinError>;

#[derive(Default)]
pub(super) struct Kept {
    keepers: BTreeMap<GroupPartition, KeeperHandle>,
    tasks: JoinSet<GroupPartition>,
    /// Which keeper a task is, for one that panicked.
    of_tasks: HashMap<Id, GroupPartition>,
    /// Grows whenever others are kept.
    revision: u64,
}

impl Kept {
    /// What is kept already, and be it about to end, is passed over. How many were taken.
    pub(super) fn take(&mut self, wanted: BTreeMap<GroupPartition, Wanted>, shared: &Arc<Shared>) -> usize {
        let mut taken = 0;
        for (at, Wanted { group, topic_id }) in wanted {
            if !self.keepers.contains_key(&at) {
                let (handle, keeper) = Keeper::new(at.clone(), topic_id, group, shared.clone());
                let task = self.tasks.spawn(keeper.keep());
                self.of_tasks.insert(task.id(), at.clone());
                self.keepers.insert(at, handle);
                taken += 1;
            }
        }
        self.revision += u64::from(taken > 0);
        taken
    }

    /// How many were told so that did not know.
    pub(super) fn let_go(&mut self, which: impl Fn(&GroupPartition, &KeeperHandle) -> bool) -> usize {
        let mut let_go = 0;
        for (_, keeper) in self.keepers.iter().filter(|(at, keeper)| !keeper.let_go.is_cancelled() && which(at, keeper)) {
            keeper.let_go.cancel();
            let_go += 1;
        }
        let_go
    }

    /// `false`: it is too busy now.
    pub(super) fn tell(&self, at: &GroupPartition, command: Command) -> bool {
        self.keepers.get(at).is_none_or(|keeper| !matches!(keeper.commands.try_send(command), Err(TrySendError::Full(_))))
    }

    /// The groups of those that are to end with them.
    pub(super) fn groups_besides(&self, charges: &Charges) -> Vec<Arc<Group>> {
        let mut groups: Vec<Arc<Group>> = Vec::new();
        for keeper in self.keepers.values().filter(|keeper| !charges.contains(&keeper.group)) {
            if !groups.iter().any(|group| Arc::ptr_eq(group, &keeper.group)) {
                groups.push(keeper.group.clone());
            }
        }
        groups
    }

    /// For ever if nothing is kept.
    pub(super) async fn next_ended(&mut self) -> Ended {
        match self.tasks.join_next_with_id().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// The next look starts a keeper anew if the partition is still wanted.
    pub(super) fn ended(&mut self, ended: Ended) -> Vec<GroupPartition> {
        let mut forgotten = Vec::from_iter(self.forget(ended));
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            forgotten.extend(self.forget(ended));
        }
        self.revision += 1;
        forgotten
    }

    fn forget(&mut self, ended: Ended) -> Option<GroupPartition> {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(failed) => failed.id(),
        };
        let at = self.of_tasks.remove(&id)?;
        if let Err(failed) = ended {
            error!(group = %at.group, topic = %at.topic, partition = at.partition.0, error = %failed,
                "a partition's task failed, which is a fault in this program; the partition is claimed again");
        }
        self.keepers.remove(&at);
        Some(at)
    }

    /// What is served, and under which epoch: only that can have been moved by somebody else.
    pub(super) fn serving(&self) -> Vec<(GroupPartition, Epoch)> {
        let epoch = |keeper: &KeeperHandle| match *keeper.phase.borrow() {
            Phase::Serving(epoch) => Some(epoch),
            Phase::Claiming { .. } | Phase::Ending => None,
        };
        self.keepers.iter().filter_map(|(at, keeper)| Some((at.clone(), epoch(keeper)?))).collect()
    }

    pub(super) fn holding(&self, at: &GroupPartition) -> Holding {
        match self.keepers.get(at).map(|keeper| keeper.phase.borrow().clone()) {
            Some(Phase::Serving(_)) => Holding::Serving,
            Some(Phase::Claiming { .. }) => Holding::Claiming,
            Some(Phase::Ending) | None => Holding::Nothing,
        }
    }

    /// Those of which something cannot be claimed because queue or coordinator do not answer: what
    /// others have not claimed then is no fault of theirs.
    pub(super) fn groups_without_a_backend(&self) -> BTreeSet<GroupName> {
        let waits = |keeper: &KeeperHandle| matches!(&*keeper.phase.borrow(), Phase::Claiming { trouble: Some(trouble) } if trouble.cause == Cause::Backend);
        self.keepers.iter().filter(|(_, keeper)| waits(keeper)).map(|(at, _)| at.group.clone()).collect()
    }

    pub(super) fn directory(&self) -> Directory {
        self.keepers.iter().map(|(at, keeper)| Entry { at: at.clone(), keeper: keeper.clone() }).collect()
    }

    /// Another one stands for another [`directory`](Self::directory).
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn staying(&self) -> usize {
        self.keepers.values().filter(|keeper| !keeper.let_go.is_cancelled()).count()
    }

    pub(super) fn len(&self) -> usize {
        self.keepers.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keepers.is_empty()
    }
}

//! Decides which partitions this process keeps, from fresh reads, whenever something may have
//! changed: a hint of the queue or the coordinator, a keeper that ended, and every 10 s.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use common::coordinator::{Lease, Member};
use common::ids::{Epoch, GroupName, GroupPartition};
use engine::task::Permission;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::directory::{Directory, Entry};
use crate::group::{Backends, Group};
use crate::keeper::{Command, Keeper, KeeperHandle, Phase};

mod wanted;

use self::wanted::{View, Wanted};

/// Nothing changes unseen for longer than this, even without a hint.
const TICK: Duration = Duration::from_secs(10);
/// Reads that failed are tried again after this.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// However often hints come, reads are at least this far apart.
const MIN_APART: Duration = Duration::from_millis(5);

pub(crate) struct Fleet {
    groups: Arc<[Arc<Group>]>,
    backends: Arc<Backends>,
    me: Member,
    lease: Lease,
    kept: HashMap<GroupPartition, KeeperHandle>,
    keepers: JoinSet<GroupPartition>,
    /// Which keeper a task is, for one that panicked.
    tasks: HashMap<Id, GroupPartition>,
    paused: HashMap<GroupName, bool>,
    directory: watch::Sender<Directory>,
}

impl Fleet {
    pub(crate) fn new(groups: Arc<[Arc<Group>]>, backends: Arc<Backends>, me: Member, directory: watch::Sender<Directory>) -> Self {
        let lease = backends.coordinator.lease();
        Self {
            groups,
            backends,
            me,
            lease,
            kept: HashMap::new(),
            keepers: JoinSet::new(),
            tasks: HashMap::new(),
            paused: HashMap::new(),
            directory,
        }
    }

    /// Until `drain`, by which everything is let go and has been given up when this returns.
    pub(crate) async fn run(mut self, drain: &CancellationToken) {
        let mut hints = self.backends.coordinator.hints();
        let mut changes = self.backends.queue.changes();
        loop {
            let read = tokio::select! {
                () = drain.cancelled() => break,
                read = View::read(&self.groups, &self.backends, self.serving()) => read,
            };
            let again = match read {
                Ok(view) => {
                    self.apply(view);
                    TICK
                }
                Err(error) => {
                    warn!(%error, retry_in = ?TRY_AGAIN, "what this process should own could not be read; it goes on with what it owns");
                    TRY_AGAIN
                }
            };
            let not_before = Instant::now() + MIN_APART;
            tokio::select! {
                () = drain.cancelled() => break,
                Ok(()) = hints.changed() => {}
                Ok(()) = changes.changed() => {}
                _ = self.lease.changed() => {}
                Some(ended) = self.keepers.join_next_with_id() => self.ended(ended),
                () = tokio::time::sleep(again) => {}
            }
            while let Some(ended) = self.keepers.try_join_next_with_id() {
                self.ended(ended);
            }
            tokio::time::sleep_until(not_before).await;
        }
        self.let_everything_go().await;
    }

    fn serving(&self) -> Vec<(GroupPartition, Epoch)> {
        let epoch = |keeper: &KeeperHandle| match *keeper.phase.borrow() {
            Phase::Serving(epoch) => Some(epoch),
            Phase::Claiming { .. } | Phase::Ending => None,
        };
        self.kept.iter().filter_map(|(at, keeper)| Some((at.clone(), epoch(keeper)?))).collect()
    }

    fn apply(&mut self, view: View) {
        self.paused = view.paused.clone();
        self.permit();
        let wanted = view.wanted(&self.groups, &self.me);
        for (at, keeper) in &self.kept {
            if wanted.get(at).is_none_or(|wanted| wanted.topic_id != keeper.topic_id) {
                keeper.let_go.cancel();
            }
        }
        for (at, epoch) in view.moved {
            if let Some(keeper) = self.kept.get(&at) {
                // A full queue means that it is being told already; the next look tells it again.
                let _ = keeper.commands.try_send(Command::Adopt(epoch));
            }
        }
        let fresh: Vec<_> = wanted.into_iter().filter(|(at, _)| !self.kept.contains_key(at)).collect();
        for (at, wanted) in fresh {
            self.keep(at, wanted);
        }
        self.publish();
    }

    fn keep(&mut self, at: GroupPartition, Wanted { group, topic_id }: Wanted) {
        let (handle, keeper) = Keeper::new(at.clone(), topic_id, group, self.backends.clone());
        let task = self.keepers.spawn(keeper.keep());
        self.tasks.insert(task.id(), at.clone());
        self.kept.insert(at, handle);
    }

    fn ended(&mut self, ended: Result<(Id, GroupPartition), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(failed) => failed.id(),
        };
        let Some(at) = self.tasks.remove(&id) else { return };
        if let Err(failed) = ended {
            error!(group = %at.group, topic = %at.topic, partition = at.partition.0, error = %failed,
                "a partition's task failed, which is a fault in this program; the partition is claimed again");
        }
        self.kept.remove(&at);
    }

    /// Tells every group whether it may work.
    fn permit(&self) {
        for group in self.groups.iter() {
            let paused = self.paused.get(&group.config.group).copied().unwrap_or(false);
            let permission = match (self.lease.holds(), paused) {
                (false, _) => Permission::Cut,
                (true, true) => Permission::Pause,
                (true, false) => Permission::Run,
            };
            let before = group.permission.send_replace(permission);
            if before != permission {
                info!(group = %group.config.group, from = ?before, to = ?permission, "the group's permission to make attempts changed");
            }
        }
    }

    fn publish(&self) {
        let entry = |(at, keeper): (&GroupPartition, &KeeperHandle)| Entry { at: at.clone(), keeper: keeper.clone() };
        self.directory.send_replace(self.kept.iter().map(entry).collect());
    }

    /// No attempt starts from here on; open ones end in time or are cut, and every last cursor is stored.
    async fn let_everything_go(&mut self) {
        for group in self.groups.iter() {
            group.permission.send_if_modified(|now| {
                let run = *now == Permission::Run;
                *now = if run { Permission::Pause } else { *now };
                run
            });
        }
        for keeper in self.kept.values() {
            keeper.let_go.cancel();
        }
        info!(partitions = self.kept.len(), grace = ?self.backends.grace, "draining: no new attempts; open ones may end");
        while let Some(ended) = self.keepers.join_next_with_id().await {
            self.ended(ended);
        }
        self.publish();
    }
}

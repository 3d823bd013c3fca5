//! Decides which partitions this process keeps, from fresh reads, whenever something may have
//! changed: a hint of the queue or the coordinator, a keeper that ended, and every 10 s.

use std::collections::{HashMap, HashSet};
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
    paused: HashSet<GroupName>,
    /// Whether the lease held when that was last said.
    held: bool,
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
            paused: HashSet::new(),
            held: true,
            directory,
        }
    }

    /// Until `drain`, by which everything is let go and has been given up when this returns.
    pub(crate) async fn run(mut self, drain: &CancellationToken) {
        let mut hints = self.backends.coordinator.hints();
        let mut changes = self.backends.queue.changes();
        loop {
            let (groups, backends, serving) = (self.groups.clone(), self.backends.clone(), self.serving());
            let read = tokio::select! {
                () = drain.cancelled() => break,
                // Not to wait for a coordinator that does not answer: open attempts must be cut now.
                _ = self.lease.changed() => {
                    self.permit();
                    continue;
                }
                read = View::read(&groups, &backends, serving) => read,
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
                _ = self.lease.changed() => self.permit(),
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

    /// What is served, and under which epoch: only that can have been moved by somebody else.
    fn serving(&self) -> Vec<(GroupPartition, Epoch)> {
        let epoch = |keeper: &KeeperHandle| match *keeper.phase.borrow() {
            Phase::Serving(epoch) => Some(epoch),
            Phase::Claiming { .. } | Phase::Ending => None,
        };
        self.kept.iter().filter_map(|(at, keeper)| Some((at.clone(), epoch(keeper)?))).collect()
    }

    /// Permissions first: a partition that is taken must find out at once that its group is paused.
    /// What is to be taken but not given up yet waits for the end of its former keeper.
    fn apply(&mut self, view: View) {
        let wanted = view.wanted(&self.groups, &self.me);
        self.paused = view.paused;
        self.permit();
        let lost = |at: &GroupPartition, keeper: &KeeperHandle| wanted.get(at).is_none_or(|wanted| wanted.topic_id != keeper.topic_id);
        let mut let_go = 0;
        for (_, keeper) in self.kept.iter().filter(|(at, keeper)| lost(at, keeper) && !keeper.let_go.is_cancelled()) {
            keeper.let_go.cancel();
            let_go += 1;
        }
        for (at, epoch) in view.moved {
            if let Some(keeper) = self.kept.get(&at) {
                // A full queue means that it is being told already; the next look tells it again.
                let _ = keeper.commands.try_send(Command::Adopt(epoch));
            }
        }
        let fresh: Vec<_> = wanted.into_iter().filter(|(at, _)| !self.kept.contains_key(at)).collect();
        let taken = fresh.len();
        for (at, wanted) in fresh {
            self.keep(at, wanted);
        }
        if taken > 0 || let_go > 0 {
            let now = self.kept.values().filter(|keeper| !keeper.let_go.is_cancelled()).count();
            info!(taken, let_go, now, "the partitions that this process is to serve changed");
        }
        self.publish();
    }

    fn keep(&mut self, at: GroupPartition, Wanted { group, topic_id }: Wanted) {
        let (handle, keeper) = Keeper::new(at.clone(), topic_id, group, self.backends.clone());
        let task = self.keepers.spawn(keeper.keep());
        self.tasks.insert(task.id(), at.clone());
        self.kept.insert(at, handle);
    }

    /// The next look starts a keeper anew if the partition is still wanted.
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
    fn permit(&mut self) {
        let holds = self.lease.holds();
        if holds != self.held {
            self.held = holds;
            match holds {
                true => info!("the lease holds again: attempts are made"),
                false => warn!("the lease is lost: open attempts are cut, and none is made until the coordinator answers again"),
            }
        }
        for group in self.groups.iter() {
            let name = &group.config.group;
            let paused = self.paused.contains(name);
            let permission = match (holds, paused) {
                (false, _) => Permission::Cut,
                (true, true) => Permission::Pause,
                (true, false) => Permission::Run,
            };
            let mut before = permission;
            group.allowed.send_modify(|allowed| before = allowed.turn_to(permission));
            match (before, permission) {
                (Permission::Run, Permission::Pause) => info!(group = %name, "the group is paused: no attempts are made"),
                (Permission::Pause, Permission::Run) => info!(group = %name, "the group is resumed"),
                _ => {}
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
            group.allowed.send_if_modified(|allowed| {
                let run = allowed.permission == Permission::Run;
                if run {
                    allowed.turn_to(Permission::Pause);
                }
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

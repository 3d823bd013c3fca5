//! One life of a pusher: the real coordinator on a runtime of its own, whose clock stands still
//! unless it is told, and the least of a pusher that keeps partitions by it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::{AclMode, Ensemble, Metrics, Options, ZooKeeperCoordinator};
use super::keeper::{Keeper, Kept};
use super::truth::at;
use super::wire::{Broken, SimulatedDoor};
use super::world::{Peer, SESSION, Shared};
use crate::coordinator::vacancy::{Holding, Look, Vacancies};
use crate::coordinator::{Birth, Coordinator, CoordinatorError, Log, Member, MemberGroup, Vacant, conformance};
use crate::ids::GroupPartition;

/// Room for the member and two partitions: who owns three has two sessions, unless a rule is broken on purpose.
const MAX_PATH_BYTES: usize = 94;
const TICK: Duration = Duration::from_secs(10);
const TRY_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Process {
    pub(super) peer: usize,
    runtime: Runtime,
    pusher: Arc<Pusher>,
    /// Time that passed while it was frozen.
    owed: Duration,
}

impl Process {
    pub(super) fn start(world: &Shared, instance: &str, broken: Option<Broken>) -> Self {
        let peer = {
            let mut world = world.lock();
            world.peers.push(Peer::default());
            world.peers.len() - 1
        };
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let ensemble = Ensemble::parse("simulated:1").unwrap();
        let options = Options { ensemble, session_timeout: SESSION, digest: None, acl: AclMode::Open };
        let door = SimulatedDoor { world: world.clone(), peer, instance: instance.to_owned(), broken };
        let max_path_bytes = if broken.is_none() { MAX_PATH_BYTES } else { usize::MAX };
        let inside = runtime.enter();
        let coordinator = ZooKeeperCoordinator::through(door, options, &Metrics::default(), max_path_bytes);
        drop(inside);
        let pusher = Arc::new(Pusher {
            world: world.clone(),
            peer,
            coordinator,
            instance: instance.to_owned(),
            paused: watch::Sender::new(false),
            leave: CancellationToken::new(),
            ended: AtomicBool::new(false),
            broken,
        });
        let living = pusher.clone();
        runtime.spawn(async move {
            living.live().await;
            living.ended.store(true, Ordering::Relaxed);
        });
        Self { peer, runtime, pusher, owed: Duration::ZERO }
    }

    /// Everything that can go on without time does.
    pub(super) fn run(&self) {
        self.runtime.block_on(async {
            for _ in 0..6 {
                tokio::task::yield_now().await;
            }
        });
    }

    pub(super) fn advance(&mut self, time: Duration, frozen: bool) {
        self.owed += time;
        if !frozen {
            let owed = std::mem::take(&mut self.owed);
            self.runtime.block_on(tokio::time::advance(owed));
        }
    }

    pub(super) fn leave(&self) {
        self.pusher.leave.cancel();
    }

    /// It has left the fleet, or its name is taken.
    pub(super) fn has_ended(&self) -> bool {
        self.pusher.ended.load(Ordering::Relaxed)
    }

    pub(super) fn replay(&self, id: &str, partition: usize, to: u64) {
        let pusher = self.pusher.clone();
        let id = id.to_owned();
        self.runtime.spawn(async move { pusher.replay(id, partition, to).await });
    }

    pub(super) fn pause(&self, paused: bool) {
        let pusher = self.pusher.clone();
        self.runtime.spawn(async move { drop(pusher.coordinator.set_paused(&at(0).group, paused).await) });
    }
}

pub(super) struct Pusher {
    pub(super) world: Shared,
    pub(super) peer: usize,
    pub(super) coordinator: ZooKeeperCoordinator,
    instance: String,
    pub(super) paused: watch::Sender<bool>,
    pub(super) leave: CancellationToken,
    ended: AtomicBool,
    pub(super) broken: Option<Broken>,
}

/// What a decision rests on.
struct View {
    members: Vec<Member>,
    paused: bool,
    moved: Vec<(usize, u64)>,
    vacant: Vec<Vacant>,
}

impl Pusher {
    pub(super) fn log(&self, partition: usize) -> Log {
        self.world.lock().truth.log().of(partition)
    }

    async fn live(self: &Arc<Self>) {
        let until_left = self.leave.clone();
        let served = MemberGroup { topics: vec![at(0).topic], config: String::new() };
        let groups = BTreeMap::from([("g".to_owned(), served)]);
        let me = Member { boot: Uuid::new_v4(), groups, ..conformance::member(&self.instance) };
        let joined = until_left.run_until_cancelled(async {
            loop {
                match self.join(me.clone()).await {
                    Ok(()) => return true,
                    Err(CoordinatorError::InstanceTaken(_)) => return false,
                    Err(_) => tokio::time::sleep(TRY_AGAIN).await,
                }
            }
        });
        if joined.await == Some(true) {
            self.serve().await;
        }
        let _ = self.coordinator.leave().await;
    }

    async fn join(&self, me: Member) -> Result<(), CoordinatorError> {
        self.born().await?;
        self.coordinator.join(me).await
    }

    /// At the end of every partition, as a group is born that does not want what is old.
    pub(super) async fn born(&self) -> Result<(), CoordinatorError> {
        let (topic_id, start, log) = {
            let world = self.world.lock();
            let log = world.truth.log();
            let all = (0..log.end.len()).map(|partition| log.of(partition)).collect::<Vec<_>>();
            (Some(log.topic_id()), log.ends(), all)
        };
        self.coordinator.birth(&at(0).group, &at(0).topic, Birth { topic_id, start }, &log).await.map(drop)
    }

    async fn serve(self: &Arc<Self>) {
        let mut hints = self.coordinator.hints();
        let mut kept: HashMap<usize, Kept> = HashMap::new();
        let mut keepers = JoinSet::new();
        let mut vacancies = Vacancies::default();
        loop {
            let serving = kept.iter().filter_map(|(partition, kept)| Some((*partition, kept.epoch()?))).collect();
            let again = match self.leave.run_until_cancelled(self.view(serving)).await {
                None => break,
                Some(Ok(view)) => {
                    self.apply(view, &mut kept, &mut keepers, &mut vacancies);
                    let due = vacancies.due(self.patience()).map(|due| due.saturating_duration_since(Instant::now()));
                    due.map_or(TICK, |due| due.min(TICK))
                }
                Some(Err(_)) => TRY_AGAIN,
            };
            tokio::select! {
                biased;
                () = self.leave.cancelled() => break,
                Ok(()) = hints.changed() => {}
                Some(Ok(partition)) = keepers.join_next() => drop(kept.remove(&partition)),
                () = tokio::time::sleep(again) => {}
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let _ = self.coordinator.withdraw().await;
        kept.values().for_each(|kept| kept.let_go.cancel());
        while keepers.join_next().await.is_some() {}
    }

    async fn view(&self, serving: Vec<(usize, u64)>) -> Result<View, CoordinatorError> {
        let paused = self.coordinator.control(&at(0).group).await?.paused;
        let owned: Vec<_> = serving.iter().map(|(partition, epoch)| (at(*partition), crate::ids::Epoch(*epoch))).collect();
        let moved = self.coordinator.moved(&owned).await?;
        let moved = serving.into_iter().filter(|(partition, _)| moved.contains(&at(*partition))).collect();
        let members = self.coordinator.members().await?;
        let partitions = self.world.lock().truth.log().partitions();
        let vacant = self.coordinator.vacant(&at(0).group, &at(0).topic, partitions).await?;
        Ok(View { members, paused, moved, vacant })
    }

    pub(super) fn is_unable(&self) -> bool {
        self.world.lock().peers[self.peer].unable
    }

    fn patience(&self) -> Duration {
        match self.broken {
            Some(Broken::NextTooEarly) => Duration::ZERO,
            Some(Broken::NextNever) => Duration::from_hours(1),
            _ => self.coordinator.patience().unwrap_or(Duration::MAX),
        }
    }

    fn apply(self: &Arc<Self>, view: View, kept: &mut HashMap<usize, Kept>, keepers: &mut JoinSet<usize>, vacancies: &mut Vacancies) {
        self.paused.send_replace(view.paused);
        self.world.lock().truth.has_read(self.peer, view.paused);
        let partitions = self.world.lock().truth.log().partitions();
        if self.is_unable() {
            vacancies.put_off(&at(0).group, Instant::now());
        }
        if self.broken == Some(Broken::NextForgets) {
            vacancies.retain(|_| view.vacant.is_empty());
        }
        let look = Look { members: &view.members, me: &self.instance, now: Instant::now(), patience: self.patience() };
        let holding = |at: &GroupPartition| match kept.get(&(at.partition.0 as usize)).map(Kept::epoch) {
            Some(Some(_)) => Holding::Serving,
            Some(None) => Holding::Claiming,
            None => Holding::Nothing,
        };
        let mine = vacancies.mine(&look, (&at(0).group, &at(0).topic), partitions, Some(&view.vacant), holding);
        let mine: Vec<usize> = mine.into_iter().map(|partition| partition.0 as usize).collect();
        kept.iter().filter(|(partition, _)| !mine.contains(partition)).for_each(|(_, kept)| kept.let_go.cancel());
        for (partition, epoch) in view.moved {
            if let Some(kept) = kept.get(&partition) {
                kept.moved.send_replace(epoch);
            }
        }
        for partition in mine {
            if let std::collections::hash_map::Entry::Vacant(free) = kept.entry(partition) {
                let (handle, keeper) = Keeper::new(self.clone(), partition);
                keepers.spawn(keeper.keep());
                free.insert(handle);
            }
        }
    }

    async fn replay(&self, id: String, partition: usize, to: u64) {
        let log = self.log(partition);
        let to = crate::ids::Offset(to.clamp(log.first.0, log.end.0));
        let (group, topic, partition) = (at(partition).group, at(partition).topic, at(partition).partition);
        let targets = vec![crate::coordinator::ReplayTarget { topic, partition, to, topic_id: log.topic_id }];
        let replay = crate::coordinator::Replay { group, id, asked_at: 1, targets };
        if self.coordinator.replay(&replay).await.is_ok() {
            self.world.lock().truth.replay_answered(&replay.id);
        }
    }
}

//! One life of a process: a program on a runtime of its own, whose clock stands still unless it is told.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::super::{AclMode, Ensemble, Metrics, Options, ZooKeeperCoordinator};
use super::log::SimulatedQueue;
use super::truth::at;
use super::wire::{Broken, SimulatedDoor};
use super::witness::Witness;
use super::world::{Peer, SESSION, Shared};
use crate::coordinator::{Coordinator, Replay, ReplayTarget};
use crate::ids::{Epoch, Offset, Partition};
use crate::queue::Queue;

/// Room for the member and two partitions: who owns three has two sessions, unless a rule is broken on purpose.
const MAX_PATH_BYTES: usize = 94;
/// So often everything that is ready runs, tasks that wake each other included. Two are enough, twenty find no more.
const YIELDS: usize = 6;

/// What runs in a process: called inside its runtime.
pub trait Program {
    /// It serves group `g` with topic `t`, and is a member of that name.
    fn start(host: &Host, coordinator: Arc<dyn Coordinator>, queue: Arc<dyn Queue>) -> Self;

    /// It is to end, and to give everything up before.
    fn leave(&self);

    fn has_ended(&self) -> bool;
}

/// Where a program runs.
#[derive(Clone)]
pub struct Host {
    pub(super) world: Shared,
    pub(super) peer: usize,
    instance: String,
}

impl Host {
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Whether its group gives up what fails.
    pub fn bypasses(&self) -> bool {
        self.world.lock().bypass
    }

    /// One attempt at a record, as its receiver sees it: `true` if that acknowledged it. Dropped
    /// before its end, it was cut.
    pub async fn deliver(&self, partition: Partition, epoch: Epoch, offset: Offset, value: &[u8]) -> bool {
        let attempt = Attempt::begin(self, (partition, epoch, offset), value);
        let refused = attempt.number().is_multiple_of(5) || attempt.number() % 11 == 1;
        attempt.end(!refused).await
    }

    /// Writes down that a record is given up. Dropped before its end, it was not.
    pub async fn bury(&self, partition: Partition, offset: Offset, value: &[u8]) -> bool {
        let epoch = Epoch(self.world.lock().epoch_of(self.peer, partition.0 as usize));
        let attempt = Attempt::begin(self, (partition, epoch, offset), value);
        let written = !attempt.number().is_multiple_of(3);
        attempt.end(written).await
    }
}

struct Attempt<'a> {
    host: &'a Host,
    id: Option<u64>,
}

impl<'a> Attempt<'a> {
    fn begin(host: &'a Host, (partition, epoch, offset): (Partition, Epoch, Offset), value: &[u8]) -> Self {
        let what = (partition.0 as usize, epoch.0, offset.0);
        let id = Some(host.world.lock().attempt(host.peer, what, value));
        Self { host, id }
    }

    fn number(&self) -> u64 {
        self.id.unwrap_or(0)
    }

    /// Who answers takes its time.
    async fn end(mut self, done: bool) -> bool {
        let takes = [0, 50, 300, 0, 900, 4000, 0][usize::try_from(self.number() % 7).unwrap()];
        tokio::time::sleep(Duration::from_millis(takes)).await;
        if let Some(id) = self.id.take() {
            self.host.world.lock().truth.ended(id, done);
        }
        done
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.host.world.lock().truth.ended(id, false);
        }
    }
}

pub(in super::super) struct Process<P> {
    pub(super) peer: usize,
    runtime: Runtime,
    program: P,
    witness: Arc<Witness>,
    world: Shared,
    /// Time that passed while it was frozen.
    owed: Duration,
}

impl<P: Program> Process<P> {
    pub(super) fn start(world: &Shared, instance: &str, broken: Option<Broken>) -> Self {
        let peer = {
            let mut world = world.lock();
            world.peers.push(Peer::default());
            world.peers.len() - 1
        };
        let host = Host { world: world.clone(), peer, instance: instance.to_owned() };
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let inside = runtime.enter();
        let witness = Arc::new(Witness::new(coordinator(&host, broken), &host, broken));
        let program = P::start(&host, witness.clone(), Arc::new(SimulatedQueue::new(&host)));
        drop(inside);
        Self { peer, runtime, program, witness, world: world.clone(), owed: Duration::ZERO }
    }

    /// Everything that can go on without time does.
    pub(super) fn run(&self) {
        self.witness.refresh();
        self.runtime.block_on(async {
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
        });
    }

    pub(super) fn advance(&mut self, time: Duration, frozen: bool) {
        self.owed += time;
        if !frozen {
            self.witness.refresh();
            let owed = std::mem::take(&mut self.owed);
            self.runtime.block_on(tokio::time::advance(owed));
        }
    }

    pub(super) fn leave(&self) {
        self.program.leave();
    }

    /// It has left the fleet, or its name is taken.
    pub(super) fn has_ended(&self) -> bool {
        self.program.has_ended()
    }

    /// As asked of it by an operator.
    pub(super) fn replay(&self, id: String, partition: usize, to: u64) {
        let log = self.world.lock().truth.log().of(partition);
        let to = Offset(to.clamp(log.first.0, log.end.0));
        let at = at(partition);
        let targets = vec![ReplayTarget { topic: at.topic, partition: at.partition, to, topic_id: log.topic_id }];
        let replay = Replay { group: at.group, id, asked_at: 1, targets };
        self.ask(async move |witness| drop(witness.replay(&replay).await));
    }

    pub(super) fn pause(&self, paused: bool) {
        self.ask(async move |witness| drop(witness.set_paused(&at(0).group, paused).await));
    }

    /// Beside the program.
    pub(in super::super) fn ask<T, F>(&self, ask: impl FnOnce(Arc<dyn Coordinator>) -> F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.runtime.spawn(ask(self.witness.clone()))
    }
}

fn coordinator(host: &Host, broken: Option<Broken>) -> ZooKeeperCoordinator {
    let Host { world, peer, instance } = host.clone();
    let ensemble = Ensemble::parse("simulated:1").unwrap();
    let options = Options { ensemble, session_timeout: SESSION, digest: None, acl: AclMode::Open };
    let door = SimulatedDoor { world, peer, instance, broken };
    let max_path_bytes = if broken.is_none() { MAX_PATH_BYTES } else { usize::MAX };
    ZooKeeperCoordinator::through(door, options, &Metrics::default(), max_path_bytes)
}

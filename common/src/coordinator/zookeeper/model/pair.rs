//! Two processes, one of which does something between two reads of the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::super::super::lease::simulated;
use super::log::SimulatedLog;
use super::process::{Host, Process, Program};
use super::truth::Truth;
use super::world::Shared;
use crate::coordinator::Coordinator;
use crate::queue::Queue;

/// More than any verb asks.
const MANY: usize = 100;

pub(in super::super) struct Pair {
    world: Shared,
    pub(in super::super) watcher: Process<Nothing>,
    pub(in super::super) claimant: Process<Nothing>,
}

pub(in super::super) struct Nothing;

impl Program for Nothing {
    fn start(_: &Host, _: Arc<dyn Coordinator>, _: Arc<dyn Queue>) -> Self {
        Self
    }

    fn leave(&self) {}

    fn has_ended(&self) -> bool {
        false
    }
}

impl Pair {
    pub(in super::super) fn new() -> Self {
        simulated::set(Duration::ZERO);
        let world = Shared::new(Truth::new(SimulatedLog::new(vec![10]), &[None]));
        let process = |name| Process::start(&world, name, None);
        let (watcher, claimant) = (process("watcher"), process("claimant"));
        let pair = Self { world, watcher, claimant };
        pair.all();
        pair
    }

    fn serve(&self, process: &Process<Nothing>, at_most: usize) -> usize {
        process.run();
        let served = self.world.lock().serve(process.peer, at_most);
        process.run();
        served
    }

    /// Until nobody asks anything any more.
    pub(in super::super) fn all(&self) -> bool {
        (0..MANY).any(|_| self.serve(&self.watcher, MANY) + self.serve(&self.claimant, MANY) == 0)
    }

    pub(in super::super) fn watcher_reads_once(&self) {
        assert_eq!(self.serve(&self.watcher, 1), 1);
    }

    pub(in super::super) fn claimant_goes_on(&self) {
        while self.serve(&self.claimant, MANY) > 0 {}
    }

    pub(in super::super) fn answer<T>(&self, asked: JoinHandle<T>) -> T {
        assert!(self.all() && asked.is_finished());
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(asked).unwrap()
    }
}

//! A history: steps, one after the other, and what must hold after each.

use std::time::Duration;

use super::super::super::lease::simulated;
use super::super::wire::Op;
use super::Course;
use super::log::SimulatedLog;
use super::process::{Process, Program};
use super::steps::{Setup, Step, What};
use super::truth::Truth;
use super::wire::Broken;
use super::world::{Flow, SESSION, Shared, World};

/// Timers of processes are this late at most, and the servers' too.
const QUANTUM: Duration = Duration::from_millis(250);
/// Of requests and answers between two steps.
const MAX_ROUNDS: usize = 60;
/// After everything is well again: an owner for every partition. The servers' tick, three seconds,
/// and what a release may take.
const OWNED_WITHIN: Duration = Duration::from_millis(6000 + 500 + 3000 + 2000);
/// More, where somebody cannot claim: until it is noticed that nobody owns a partition, and for each.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);
const PASSED_OVER_WITHIN: Duration = Duration::from_secs(6 + 5);
/// And every cursor at its end.
const FINISHED_WITHIN: Duration = Duration::from_secs(120);

pub(super) struct History<P> {
    world: Shared,
    processes: Vec<Option<Process<P>>>,
    broken: Option<Broken>,
    /// Requests of a process that are served before it is another's turn.
    at_most: usize,
    replays: u64,
}

impl<P: Program> History<P> {
    pub(super) fn run(setup: &Setup, steps: &[Step], broken: Option<Broken>) -> Result<Course, String> {
        let mut history = Self::new(setup, broken);
        for (index, step) in steps.iter().enumerate() {
            history.step(*step);
            history.settle();
            history.check().map_err(|violation| format!("after step {index}, {step:?}: {violation}"))?;
        }
        history.heal().map_err(|violation| format!("after everything was well again: {violation}"))?;
        Ok(history.course())
    }

    fn course(&self) -> Course {
        let world = self.world.lock();
        Course { transactions: world.tree.zxid.unsigned_abs(), attempts: world.truth.attempts_made(), took: world.now }
    }

    fn new(setup: &Setup, broken: Option<Broken>) -> Self {
        simulated::set(Duration::ZERO);
        let world = Shared::new(Truth::new(SimulatedLog::new(setup.ends.clone()), &setup.inherited));
        {
            let mut world = world.lock();
            world.bypass = setup.bypass;
            let above = ["/consumers", "/consumers/g", "/consumers/g/offsets", "/consumers/g/offsets/t"];
            let nodes = above.iter().map(|path| Op::create((*path).to_owned(), ""));
            let cursors =
                setup.inherited.iter().enumerate().filter_map(|(partition, cursor)| {
                    Some(Op::create(format!("/consumers/g/offsets/t/{partition}"), (*cursor)?.to_string()))
                });
            let nodes: Vec<Op> = nodes.chain(cursors).collect();
            world.tree.multi(0, &nodes).unwrap();
        }
        let processes = (0..setup.processes).map(|_| None).collect();
        let mut history = Self { world, processes, broken, at_most: setup.at_most, replays: 0 };
        (0..setup.processes).for_each(|slot| history.start(slot));
        history.settle();
        history
    }

    fn start(&mut self, slot: usize) {
        if self.processes[slot].is_none() {
            self.processes[slot] = Some(Process::start(&self.world, &format!("member-{slot}"), self.broken));
        }
    }

    fn peer(&self, slot: usize) -> Option<usize> {
        self.processes[slot].as_ref().map(|process| process.peer)
    }

    /// The connection of a process that runs.
    fn on_peer(&self, slot: usize, act: impl FnOnce(&mut World, usize)) {
        if let Some(peer) = self.peer(slot) {
            act(&mut self.world.lock(), peer);
        }
    }

    fn crash(&mut self, slot: usize) {
        if let Some(process) = self.processes[slot].take() {
            let peer = process.peer;
            drop(process);
            let mut world = self.world.lock();
            world.gone(peer);
            world.truth.gone(peer);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append { partition, records } => self.on_partition(partition, |world, partition| {
                world.truth.append(partition, records);
                world.records_changed();
            }),
            Step::Trim { partition, records } => self.on_partition(partition, |world, partition| {
                world.truth.trim(partition, records);
                world.records_changed();
            }),
            Step::RecreateTopic => {
                let mut world = self.world.lock();
                let World { truth, tree, .. } = &mut *world;
                truth.recreate(tree);
                world.log_changed();
            }
            Step::AddPartition => {
                let mut world = self.world.lock();
                world.truth.add_partition();
                world.log_changed();
            }
            Step::Start(slot) => self.start(slot),
            Step::Crash(slot) => self.crash(slot),
            Step::Leave(slot) => self.processes[slot].iter().for_each(Process::leave),
            Step::Freeze(slot) => self.on_peer(slot, |world, peer| world.peers[peer].frozen = true),
            Step::Thaw(slot) => self.thaw(slot),
            Step::Waver(slot, milliseconds) => self.waver(slot, Duration::from_millis(milliseconds)),
            Step::Disable(slot) => self.on_peer(slot, |world, peer| world.peers[peer].unable = true),
            Step::Network(slot, flow) => self.on_peer(slot, |world, peer| world.set_flow(peer, flow)),
            Step::Cut(slot) => self.on_peer(slot, World::cut),
            Step::FailReads(slot, fail) => self.on_peer(slot, |world, peer| world.peers[peer].fail_reads = fail),
            Step::LoseReplies(slot, lose) => self.on_peer(slot, |world, peer| world.peers[peer].lose = lose),
            Step::FallBehind(slot) => self.on_peer(slot, World::fall_behind),
            Step::CatchUp(slot) => self.on_peer(slot, World::catch_up),
            Step::DeliverLate => self.world.lock().deliver_late(),
            Step::RestartServers => self.world.lock().restart_servers(),
            Step::Replay { slot, partition, to } => {
                self.replays += 1;
                let partition = partition % self.world.lock().truth.log().end.len();
                let id = format!("r{}", self.replays);
                self.processes[slot].iter().for_each(|process| process.replay(id.clone(), partition, to));
            }
            Step::Pause(slot, paused) => self.processes[slot].iter().for_each(|process| process.pause(paused)),
            Step::ForeignSet { partition, to } => self.on_partition(partition, |world, partition| {
                let path = format!("/consumers/g/offsets/t/{partition}");
                let _ = world.write(0, &[Op::Set { path, data: to.to_string().into(), version: None }]);
            }),
            Step::Delete { partition, what } => self.on_partition(partition, |world, partition| {
                let what = match what {
                    What::Cursor => "offsets",
                    What::Done => "done",
                    What::Owner => "owners",
                };
                let World { truth, tree, .. } = &mut *world;
                truth.delete(tree, what, partition);
                let _ = world.write(0, &[Op::Delete { path: format!("/consumers/g/{what}/t/{partition}") }]);
            }),
            Step::DeleteMember(slot) => {
                let _ = self.world.lock().write(0, &[Op::Delete { path: format!("/mqgate/fleet/member-{slot}") }]);
            }
            Step::Pass(milliseconds) => self.pass(Duration::from_millis(milliseconds)),
        }
    }

    fn on_partition(&self, partition: usize, act: impl FnOnce(&mut World, usize)) {
        let mut world = self.world.lock();
        let partition = partition % world.truth.log().end.len();
        act(&mut world, partition);
    }

    fn waver(&mut self, slot: usize, time: Duration) {
        self.on_peer(slot, |world, peer| world.peers[peer].frozen = true);
        self.pass(time);
        self.thaw(slot);
        self.settle();
        self.on_peer(slot, |world, peer| world.set_flow(peer, Flow::Isolated));
    }

    /// It does what time has come for before anybody else does something: of a process that goes on
    /// the attempts are cut by then, and no later than any other's begin.
    fn thaw(&mut self, slot: usize) {
        if let Some(process) = &mut self.processes[slot] {
            process.advance(Duration::ZERO, false);
            process.run();
            self.world.lock().peers[process.peer].frozen = false;
        }
    }

    fn pass(&mut self, mut time: Duration) {
        while !time.is_zero() {
            let some = time.min(QUANTUM);
            time -= some;
            {
                let mut world = self.world.lock();
                world.now += some;
                simulated::set(world.now);
                world.tick();
            }
            for process in self.processes.iter_mut().flatten() {
                let frozen = self.world.lock().peers[process.peer].frozen;
                process.advance(some, frozen);
            }
            self.settle();
        }
    }

    /// Until nothing more happens without time, or for long enough.
    fn settle(&mut self) {
        for _ in 0..MAX_ROUNDS {
            let mut served = 0;
            for slot in 0..self.processes.len() {
                let Some(process) = &self.processes[slot] else { continue };
                if !self.world.lock().peers[process.peer].frozen {
                    process.run();
                }
                served += self.world.lock().serve(process.peer, self.at_most);
                if process.has_ended() {
                    self.world.lock().close(process.peer);
                    self.crash(slot);
                }
            }
            if served == 0 {
                return;
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let mut world = self.world.lock();
        let World { truth, tree, .. } = &mut *world;
        truth.check(tree);
        truth.violation.take().map_or(Ok(()), Err)
    }

    fn unable(&self) -> usize {
        let world = self.world.lock();
        self.processes.iter().flatten().filter(|process| world.peers[process.peer].unable).count()
    }

    /// Invariant 9: whatever happened, with everything well again all is delivered.
    fn heal(&mut self) -> Result<(), String> {
        for slot in 0..self.processes.len() {
            self.on_peer(slot, |world, peer| {
                world.peers[peer].lose = 0;
                world.peers[peer].fail_reads = 0;
                world.set_flow(peer, Flow::Pass);
            });
            self.thaw(slot);
        }
        let mut passed = Duration::ZERO;
        loop {
            // Who was leaving has left. One at least can claim.
            if self.processes.iter().all(Option::is_none) {
                self.start(0);
                passed = Duration::ZERO;
            }
            let unable = self.unable();
            if unable == self.processes.iter().flatten().count() {
                (0..self.processes.len()).for_each(|slot| self.on_peer(slot, |world, peer| world.peers[peer].unable = false));
                passed = Duration::ZERO;
            }
            if passed.as_millis().is_multiple_of(5000)
                && let Some(process) = self.processes.iter().flatten().next()
            {
                process.pause(false);
            }
            self.pass(Duration::from_millis(500));
            passed += Duration::from_millis(500);
            self.check()?;
            let world = self.world.lock();
            let Some(unfinished) = world.truth.unfinished(&world.tree) else { return Ok(()) };
            let unowned = unfinished.contains("no owner");
            let noticed = if unable > 0 { NOTICED_WITHIN } else { Duration::ZERO };
            let owned_within = OWNED_WITHIN + SESSION + noticed + PASSED_OVER_WITHIN * u32::try_from(unable).unwrap();
            if passed > FINISHED_WITHIN || (unowned && passed > owned_within) {
                return Err(format!("invariant 9: after {passed:?} {unfinished}"));
            }
        }
    }
}

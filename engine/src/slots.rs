//! What the partitions of a task share: worker slots, the slots of event types, bytes.
//!
//! A partition asks for a slot only while it has something to do with it. A slot travels with its
//! attempt and frees itself on drop.

use std::sync::Arc;
use std::task::Context;

pub(crate) use self::budget::{Budgeted, Cover};
use self::pool::{Pool, Seat, Slot};
use crate::core::ready::Lane;
use crate::options::EventTypes;

mod budget;
mod pool;

pub(crate) struct Slots {
    workers: Arc<Pool>,
    /// By lane, from lane 1.
    types: Vec<Arc<Pool>>,
}

impl Slots {
    pub(crate) fn new(worker_num: usize, types: &EventTypes) -> Self {
        Self { workers: Pool::new(worker_num), types: types.limits().map(Pool::new).collect() }
    }
}

/// The right to make one attempt.
pub(crate) struct Permits {
    _worker: Slot,
    _type: Option<Slot>,
}

/// One partition's place among those that share the slots.
pub(crate) struct Turns {
    worker: Seat,
    /// By lane, from lane 1.
    types: Vec<TypeTurn>,
}

struct TypeTurn {
    seat: Seat,
    held: Option<Slot>,
}

impl Turns {
    pub(crate) fn new(slots: &Slots) -> Self {
        let types = slots.types.iter().map(|of| TypeTurn { seat: of.join(), held: None }).collect();
        Self { worker: slots.workers.join(), types }
    }

    /// Whether the type's limit lets an attempt of this lane begin. If not, the task is woken once it does.
    pub(crate) fn poll_lane(&mut self, lane: Lane, cx: &mut Context<'_>) -> bool {
        let Some(of) = lane.checked_sub(1).map(|at| &mut self.types[at]) else { return true };
        if of.held.is_none() {
            of.held = of.seat.poll(cx);
        }
        of.held.is_some()
    }

    /// A slot for an attempt of a lane that [`Turns::poll_lane`] allows.
    pub(crate) fn poll_start(&mut self, lane: Lane, cx: &mut Context<'_>) -> Option<Permits> {
        let worker = self.worker.poll(cx)?;
        Some(Permits { _worker: worker, _type: lane.checked_sub(1).and_then(|at| self.types[at].held.take()) })
    }

    /// The lane has nothing to attempt: its slot goes to somebody else.
    pub(crate) fn leave_lane(&mut self, lane: Lane) {
        if let Some(of) = lane.checked_sub(1).map(|at| &mut self.types[at]) {
            of.held = None;
            of.seat.leave();
        }
    }

    pub(crate) fn leave_workers(&mut self) {
        self.worker.leave();
    }
}

//! What the partitions of a task share: worker slots, the slots of event types, bytes.
//!
//! All of them are FIFO semaphores. A partition asks for one worker slot at a time, and only while
//! it has something to do with it, so that busy partitions take turns. A slot travels with its
//! attempt and frees itself on drop.

use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

use crate::core::ready::Lane;
use crate::options::EventTypes;

pub(crate) struct Slots {
    workers: Arc<Semaphore>,
    /// By lane, from lane 1.
    types: Vec<Arc<Semaphore>>,
}

impl Slots {
    pub(crate) fn new(worker_num: usize, types: &EventTypes) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS)));
        Self { workers: semaphore(worker_num), types: types.limits().map(semaphore).collect() }
    }
}

/// The right to make one attempt.
#[derive(Debug)]
pub(crate) struct Permits {
    _worker: OwnedSemaphorePermit,
    _type: Option<OwnedSemaphorePermit>,
}

/// One partition's place in the queues for slots.
pub(crate) struct Turns {
    worker: Turn,
    /// By lane, from lane 1.
    types: Vec<TypeTurn>,
}

struct TypeTurn {
    turn: Turn,
    held: Option<OwnedSemaphorePermit>,
}

impl Turns {
    pub(crate) fn new(slots: &Slots) -> Self {
        let types = slots.types.iter().map(|of| TypeTurn { turn: Turn::new(of), held: None }).collect();
        Self { worker: Turn::new(&slots.workers), types }
    }

    /// Whether the type's limit lets an attempt of this lane begin. If not, the task is woken once it does.
    pub(crate) fn poll_lane(&mut self, lane: Lane, cx: &mut Context<'_>) -> bool {
        let Some(of) = lane.checked_sub(1).map(|at| &mut self.types[at]) else { return true };
        if of.held.is_none() {
            of.held = of.turn.poll(cx);
        }
        of.held.is_some()
    }

    /// A slot for an attempt of a lane that [`Turns::poll_lane`] allows.
    pub(crate) fn poll_start(&mut self, lane: Lane, cx: &mut Context<'_>) -> Option<Permits> {
        let worker = self.worker.poll(cx)?;
        Some(Permits { _worker: worker, _type: lane.checked_sub(1).and_then(|at| self.types[at].held.take()) })
    }

    /// The lane has nothing to attempt: leaves its queue, so that the slot goes to somebody else.
    pub(crate) fn leave_lane(&mut self, lane: Lane) {
        if let Some(of) = lane.checked_sub(1).map(|at| &mut self.types[at]) {
            of.held = None;
            of.turn.leave();
        }
    }

    pub(crate) fn leave_workers(&mut self) {
        self.worker.leave();
    }
}

/// One place in the queue of one semaphore.
struct Turn {
    semaphore: PollSemaphore,
    queued: bool,
}

impl Turn {
    fn new(semaphore: &Arc<Semaphore>) -> Self {
        Self { semaphore: PollSemaphore::new(Arc::clone(semaphore)), queued: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<OwnedSemaphorePermit> {
        let polled = self.semaphore.poll_acquire(cx);
        self.queued = polled.is_pending();
        match polled {
            Poll::Ready(permit) => permit,
            Poll::Pending => None,
        }
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.queued) {
            self.semaphore = PollSemaphore::new(self.semaphore.clone_inner());
        }
    }
}

/// The bytes that a task may hold.
pub(crate) struct Budgeted {
    bytes: Arc<Semaphore>,
    max_bytes: usize,
}

impl Budgeted {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let max_bytes = max_bytes.clamp(1, Semaphore::MAX_PERMITS);
        Self { bytes: Arc::new(Semaphore::new(max_bytes)), max_bytes }
    }

    pub(crate) fn available_bytes(&self) -> usize {
        self.bytes.available_permits()
    }
}

/// The part of the budget that one partition holds. The one event that is admitted when nothing is
/// unfinished may be without cover.
pub(crate) struct Cover {
    semaphore: PollSemaphore,
    queued: bool,
    max_bytes: usize,
    held: Option<OwnedSemaphorePermit>,
}

impl Cover {
    pub(crate) fn new(budget: &Budgeted) -> Self {
        let semaphore = PollSemaphore::new(Arc::clone(&budget.bytes));
        Self { semaphore, queued: false, max_bytes: budget.max_bytes, held: None }
    }

    /// Whether this many bytes in all are covered; takes what is missing. If it cannot be had now,
    /// the task is woken once it can; what never can be had is not queued for, since the queue
    /// would hold up everybody else.
    pub(crate) fn poll_up_to(&mut self, bytes: usize, cx: &mut Context<'_>) -> bool {
        let missing = bytes.saturating_sub(self.held_bytes());
        if missing == 0 {
            return true;
        }
        let Some(missing) = u32::try_from(missing).ok().filter(|_| bytes <= self.max_bytes) else { return false };
        let polled = self.semaphore.poll_acquire_many(cx, missing);
        self.queued = polled.is_pending();
        let Poll::Ready(Some(permit)) = polled else { return false };
        match &mut self.held {
            Some(held) => held.merge(permit),
            None => self.held = Some(permit),
        }
        true
    }

    /// Gives back what is beyond this many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let surplus = self.held_bytes().saturating_sub(bytes);
        if surplus > 0
            && let Some(held) = &mut self.held
        {
            drop(held.split(surplus));
        }
    }

    /// Leaves the queue for more.
    pub(crate) fn leave(&mut self) {
        if std::mem::take(&mut self.queued) {
            self.semaphore = PollSemaphore::new(self.semaphore.clone_inner());
        }
    }

    fn held_bytes(&self) -> usize {
        self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

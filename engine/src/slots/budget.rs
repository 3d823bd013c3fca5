//! Bytes of unfinished events, over all partitions of a task.

use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

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

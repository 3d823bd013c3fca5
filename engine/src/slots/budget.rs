//! Bytes of unfinished events, over all partitions of a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// The bytes that a task may hold; clones are the same budget.
#[derive(Clone)]
pub(crate) struct Budgeted(Arc<Bytes>);

struct Bytes {
    free: Arc<Semaphore>,
    max: AtomicUsize,
    /// Held beyond a maximum that was lowered: gone for good once they are given back.
    surplus: AtomicUsize,
}

impl Budgeted {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let max = max_bytes.clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Bytes { free: Arc::new(Semaphore::new(max)), max: AtomicUsize::new(max), surplus: AtomicUsize::new(0) }))
    }

    pub(crate) fn available_bytes(&self) -> usize {
        self.0.free.available_permits()
    }

    /// What is held stays held. Not to be called by two at one time.
    pub(crate) fn resize(&self, max_bytes: usize) {
        let max = max_bytes.clamp(1, Semaphore::MAX_PERMITS);
        let before = self.0.max.swap(max, Ordering::AcqRel);
        if max >= before {
            let still_held = self.0.take_surplus(max - before);
            self.0.free.add_permits(max - before - still_held);
        } else {
            let forgotten = self.0.free.forget_permits(before - max);
            self.0.surplus.fetch_add(before - max - forgotten, Ordering::AcqRel);
        }
    }
}

impl Bytes {
    fn take_surplus(&self, at_most: usize) -> usize {
        let rest = |surplus: usize| Some(surplus.saturating_sub(at_most));
        let before = self.surplus.fetch_update(Ordering::AcqRel, Ordering::Acquire, rest);
        before.map_or(0, |surplus| surplus.min(at_most))
    }

    fn give_back(&self, mut permit: OwnedSemaphorePermit) {
        let gone = self.take_surplus(permit.num_permits());
        permit.split(gone).expect("no more than it has").forget();
    }
}

/// The part of the budget that one partition holds. The one event that is admitted when nothing is
/// unfinished may be without cover.
pub(crate) struct Cover {
    semaphore: PollSemaphore,
    queued: bool,
    budget: Budgeted,
    held: Option<OwnedSemaphorePermit>,
}

impl Cover {
    pub(crate) fn new(budget: &Budgeted) -> Self {
        let semaphore = PollSemaphore::new(Arc::clone(&budget.0.free));
        Self { semaphore, queued: false, budget: budget.clone(), held: None }
    }

    /// Whether this many bytes in all are covered; takes what is missing. If it cannot be had now,
    /// the task is woken once it can; what never can be had is not queued for, since the queue
    /// would hold up everybody else.
    pub(crate) fn poll_up_to(&mut self, bytes: usize, cx: &mut Context<'_>) -> bool {
        let missing = bytes.saturating_sub(self.held_bytes());
        if missing == 0 {
            return true;
        }
        let max_bytes = self.budget.0.max.load(Ordering::Acquire);
        let Some(missing) = u32::try_from(missing).ok().filter(|_| bytes <= max_bytes) else {
            self.leave();
            return false;
        };
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
            && let Some(permit) = held.split(surplus)
        {
            self.budget.0.give_back(permit);
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

impl Drop for Cover {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.budget.0.give_back(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(cover: &mut Cover, bytes: usize) -> bool {
        cover.poll_up_to(bytes, &mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn what_is_held_beyond_a_lowered_maximum_goes_when_it_is_given_back() {
        let budget = Budgeted::new(100);
        let (mut one, mut other) = (Cover::new(&budget), Cover::new(&budget));
        assert!(covered(&mut one, 70) && covered(&mut other, 20));
        budget.resize(50);
        assert_eq!(budget.available_bytes(), 0);
        assert!(!covered(&mut other, 60), "never to be had any more");
        one.shrink_to(30);
        assert_eq!(budget.available_bytes(), 0, "30 and 20 are held");
        drop(one);
        assert_eq!(budget.available_bytes(), 30);
        assert!(covered(&mut other, 50));
    }

    #[test]
    fn a_raised_maximum_is_there_at_once() {
        let budget = Budgeted::new(100);
        let mut cover = Cover::new(&budget);
        assert!(covered(&mut cover, 100));
        budget.resize(40);
        budget.resize(120);
        assert_eq!(budget.available_bytes(), 20);
        drop(cover);
        assert_eq!(budget.available_bytes(), 120);
    }
}

//! Keeps a task from hammering a receiver that is down and fails at once.
//!
//! However many events wait, each with a pause of its own, while nothing but failures comes back
//! their attempts are made at a bounded rate: a failed one keeps its worker slot for a while.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::slots::Permits;

/// About so many attempts of a task are made while all of them fail.
const ATTEMPTS_PER_SECOND: f64 = 400.0;
const MIN_HOLD: Duration = Duration::from_millis(20);
const MAX_HOLD: Duration = Duration::from_secs(1);
/// Fewer failures in a row hold nothing back, and twice the worker slots must have failed.
const MIN_FAILURES: usize = 64;

/// What the partitions of a task know together.
pub(crate) struct Restraint {
    /// Failed attempts since the last success.
    failures: AtomicUsize,
    threshold: usize,
    /// From the start of an attempt.
    hold: Duration,
    success: Arc<Notify>,
}

impl Restraint {
    pub(crate) fn new(worker_num: usize) -> Self {
        let hold = Duration::from_secs_f64(worker_num as f64 / ATTEMPTS_PER_SECOND);
        Self {
            failures: AtomicUsize::new(0),
            threshold: MIN_FAILURES.max(worker_num.saturating_mul(2)),
            hold: hold.clamp(MIN_HOLD, MAX_HOLD),
            success: Arc::default(),
        }
    }

    /// Ends all restraint at once. Costs a load while nothing fails.
    pub(crate) fn succeeded(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 && self.failures.swap(0, Ordering::AcqRel) > self.threshold {
            self.success.notify_waiters();
        }
    }

    /// Takes the slot of a failed attempt: it is free again at once, or kept by `held`.
    pub(crate) fn failed(&self, permits: Permits, started: Instant, now: Instant, held: &mut Held) {
        // Made before the failure is counted: a success that does not count it cannot be missed.
        let success = Arc::clone(&self.success).notified_owned();
        let failures = self.failures.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        let until = started + self.hold;
        if failures > self.threshold && until > now {
            held.0.push(Box::pin(async move {
                let _ = timeout_at(until, success).await;
                drop(permits);
            }));
        }
    }
}

/// The slots that one partition keeps, no more than there are. Dropping it frees them.
#[derive(Default)]
pub(crate) struct Held(FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Held {
    /// Frees those whose time is over; the task is woken when that of another is.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        while !self.0.is_empty()
            && let Poll::Ready(Some(())) = self.0.poll_next_unpin(cx)
        {}
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_kept_so_long_that_about_400_attempts_a_second_are_made() {
        let holds = [1, 16, 100, 100_000].map(|worker_num| Restraint::new(worker_num).hold.as_millis());
        assert_eq!(holds, [20, 40, 250, 1000]);
        assert_eq!([1, 32, 33].map(|worker_num| Restraint::new(worker_num).threshold), [64, 64, 66]);
    }
}

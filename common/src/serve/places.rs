//! The bound on connections, and who yields when it is reached.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::phase::Progress;

/// A client that sends its request sooner after connecting, or after its last answer, is never evicted.
const SPARED: Duration = Duration::from_millis(500);

/// How often a newcomer's place is looked for while nobody leaves of himself.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Below so many, connections that are over are not worth looking for.
const MIN_SWEEP_CONNECTIONS: usize = 64;

pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Everybody inside, and some who have left: at most twice as many as were inside at the last sweep.
    inside: Vec<Weak<Progress>>,
    sweep_at_connections: usize,
}

/// One connection's place, free again when it is dropped.
pub(super) struct Place {
    progress: Arc<Progress>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(max_connections: usize) -> Self {
        let free = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
        Self { free, inside: Vec::new(), sweep_at_connections: MIN_SWEEP_CONNECTIONS }
    }

    /// When all are taken, the connection that has kept a request back for longest has to go, so that
    /// clients that say nothing lock nobody out. Where all have requests under way, this waits.
    pub(super) async fn take(&mut self) -> Place {
        let permit = match Arc::clone(&self.free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.made_free().await,
        };
        if self.inside.len() >= self.sweep_at_connections {
            self.inside.retain(|progress| progress.strong_count() > 0);
            self.sweep_at_connections = MIN_SWEEP_CONNECTIONS.max(2 * self.inside.len());
        }
        let progress = Arc::new(Progress::new(Instant::now()));
        self.inside.push(Arc::downgrade(&progress));
        Place { progress, _permit: permit }
    }

    async fn made_free(&self) -> OwnedSemaphorePermit {
        loop {
            self.evict(Instant::now());
            if let Ok(permit) = timeout(LOOK_AGAIN, Arc::clone(&self.free).acquire_owned()).await {
                return permit.expect("this semaphore is never closed");
            }
        }
    }

    fn evict(&self, now: Instant) {
        let waiting =
            self.inside.iter().filter_map(Weak::upgrade).filter_map(|progress| Some((progress.waits_for_a_request(now)?, progress)));
        let longest = waiting.filter(|(waited, _)| *waited >= SPARED).max_by_key(|(waited, _)| *waited);
        if let Some((_, progress)) = longest {
            progress.ask_to_leave();
        }
    }
}

impl Place {
    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_that_are_over_are_forgotten() {
        let mut places = Places::new(usize::MAX);
        let kept = places.take().await;
        for _ in 0..10 * MIN_SWEEP_CONNECTIONS {
            drop(places.take().await);
        }
        assert!(places.inside.len() <= MIN_SWEEP_CONNECTIONS, "{}", places.inside.len());
        assert!(places.inside.iter().any(|progress| progress.ptr_eq(&Arc::downgrade(&kept.progress))));
    }

    #[tokio::test]
    async fn the_one_that_kept_its_request_back_for_longest_is_asked_and_nobody_before_half_a_second() {
        let mut places = Places::new(3);
        let (busy, longest, later) = (places.take().await, places.take().await, places.take().await);
        let _request = busy.progress.begin();
        let begun = Instant::now();
        later.progress.phase_began(begun + SPARED);
        places.evict(begun + SPARED / 2);
        assert!(!longest.progress.leaves(), "too early");
        places.evict(begun + 2 * SPARED);
        assert_eq!([&busy, &longest, &later].map(|place| place.progress.leaves()), [false, true, false]);
    }
}

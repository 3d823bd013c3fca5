//! Permission to work, and the clock by which it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// Of a lease that does not end by itself.
const FOR_EVER: u64 = u64::MAX;

/// On a clock that also runs while the machine is suspended: a lease must not outlive its session
/// because nobody counted.
pub fn boot_time() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Permission to work, which a backend whose session can be lost takes away in time.
#[derive(Clone, Debug)]
pub struct Lease {
    holds: watch::Receiver<bool>,
    /// Milliseconds of [`boot_time`].
    until: Arc<AtomicU64>,
}

/// The backend's end of a lease that lasts only as long as it is extended.
#[derive(Debug)]
pub struct LeaseHolder {
    holds: watch::Sender<bool>,
    until: Arc<AtomicU64>,
}

impl Lease {
    /// The sender's end says whether the lease holds.
    pub fn new(holds: bool) -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(holds);
        (sender, Self { holds: receiver, until: Arc::new(AtomicU64::new(FOR_EVER)) })
    }

    /// One that does not hold yet, and ends by the clock.
    pub fn ending() -> (LeaseHolder, Self) {
        let (sender, receiver) = watch::channel(false);
        let until = Arc::new(AtomicU64::new(0));
        (LeaseHolder { holds: sender, until: until.clone() }, Self { holds: receiver, until })
    }

    /// Asked immediately before every attempt. It reads the clock: a process that was frozen finds
    /// out here, before any of its timers has fired.
    pub fn holds(&self) -> bool {
        *self.holds.borrow() && within(self.until.load(Ordering::Acquire))
    }

    /// Waits for the next change and says what it is; for ever if there will be none.
    pub async fn changed(&mut self) -> bool {
        match self.holds.changed().await {
            Ok(()) => *self.holds.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }
}

impl LeaseHolder {
    /// It holds until then at least, by [`boot_time`]. An earlier end than the one before is passed over.
    pub fn extend(&self, until: Duration) {
        let until = millis(until);
        self.until.fetch_max(until, Ordering::Release);
        if within(until) {
            self.holds.send_if_modified(|holds| !std::mem::replace(holds, true));
        }
    }

    /// Says that it has ended, if by now it has; else when that is to be asked again.
    pub fn lapse(&self) -> Option<Duration> {
        let (until, now) = (self.until.load(Ordering::Acquire), millis(boot_time()));
        if now < until {
            return Some(Duration::from_millis(until - now));
        }
        self.holds.send_if_modified(|holds| std::mem::replace(holds, false));
        None
    }

    pub fn end(&self) {
        self.until.store(0, Ordering::Release);
        self.holds.send_if_modified(|holds| std::mem::replace(holds, false));
    }
}

fn within(until: u64) -> bool {
    until == FOR_EVER || millis(boot_time()) < until
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_without_an_end_holds_as_it_is_told() {
        let (holder, lease) = Lease::new(true);
        assert!(lease.holds());
        holder.send_replace(false);
        assert!(!lease.holds());
    }

    #[test]
    fn the_clock_ends_a_lease_before_anybody_says_so() {
        let (holder, lease) = Lease::ending();
        assert!(!lease.holds());
        holder.extend(boot_time() + Duration::from_millis(40));
        assert!(lease.holds());
        std::thread::sleep(Duration::from_millis(60));
        assert!(!lease.holds());
        assert_eq!(holder.lapse(), None);
    }

    #[tokio::test]
    async fn changes_are_seen_and_an_earlier_end_changes_nothing() {
        let (holder, mut lease) = Lease::ending();
        holder.extend(boot_time() + Duration::from_secs(60));
        assert!(lease.changed().await);
        holder.extend(boot_time() + Duration::from_secs(1));
        assert!(holder.lapse().unwrap() > Duration::from_secs(50));
        holder.end();
        assert!(!lease.changed().await && !lease.holds());
    }
}

//! Permission to work, and the clock by which it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

pub use self::joint::{Joint, Share};
pub use self::proofs::Proofs;

mod joint;
mod proofs;

/// Of a lease that does not end by itself.
const FOR_EVER: u64 = u64::MAX;

/// On a clock that also runs while the machine is suspended: a lease must not outlive its session
/// because nobody counted.
pub fn boot_time() -> Duration {
    #[cfg(any(test, feature = "model"))]
    if let Some(now) = simulated::now() {
        return now;
    }
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Permission to work, which a backend whose session can be lost takes away in time.
#[derive(Clone, Debug)]
pub struct Lease {
    term: watch::Receiver<Term>,
    /// Milliseconds of [`boot_time`].
    until: Arc<AtomicU64>,
}

/// The backend's end of a lease. Dropped, it leaves the lease as it is.
#[derive(Debug)]
pub struct LeaseHolder {
    term: watch::Sender<Term>,
    until: Arc<AtomicU64>,
}

/// What was last said about a lease. Its end by the clock comes before anybody says so.
#[derive(Clone, Copy, Debug)]
struct Term {
    holds: bool,
    losses: Losses,
}

/// How often a lease was lost, a loss that lasts included: who looks late finds out by these what
/// happened in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// By its clock, or because the session was over.
    pub lapses: u64,
    /// Because the session was over: what was owned before is owned no more.
    pub sessions: u64,
}

impl Lease {
    /// One that ends only when it is told to.
    pub fn new(holds: bool) -> (LeaseHolder, Self) {
        Self::of(holds, if holds { FOR_EVER } else { 0 })
    }

    /// One that does not hold yet, and ends by the clock.
    pub fn ending() -> (LeaseHolder, Self) {
        Self::of(false, 0)
    }

    fn of(holds: bool, until: u64) -> (LeaseHolder, Self) {
        let (sender, term) = watch::channel(Term { holds, losses: Losses::default() });
        let until = Arc::new(AtomicU64::new(until));
        (LeaseHolder { term: sender, until: until.clone() }, Self { term, until })
    }

    /// Asked immediately before every attempt. It reads the clock: a process that was frozen finds
    /// out here, before any of its timers has fired.
    pub fn holds(&self) -> bool {
        self.look().0
    }

    /// Those of now. The same before and after something was done: it held all the time, or did
    /// not all the time.
    pub fn losses(&self) -> Losses {
        self.look().1
    }

    /// Both, as of one moment.
    pub fn look(&self) -> (bool, Losses) {
        // In this order: whoever sees an end that was put off sees the loss before it.
        let until = self.until.load(Ordering::Acquire);
        let Term { holds, losses } = *self.term.borrow();
        let within = within(until);
        let unsaid = holds && !within;
        (holds && within, Losses { lapses: losses.lapses + u64::from(unsaid), ..losses })
    }

    /// For how long it has not held, since the machine's start if it never did; `None` if it holds.
    pub fn lost_for(&self) -> Option<Duration> {
        let until = self.until.load(Ordering::Acquire);
        (!self.holds()).then(|| Duration::from_millis(millis(boot_time()).saturating_sub(until)))
    }

    /// Waits until it begins or ends, or did so since the last call; for ever if it never will.
    pub async fn changed(&mut self) -> bool {
        match self.term.changed().await {
            Ok(()) => self.term.borrow_and_update().holds,
            Err(_) => std::future::pending().await,
        }
    }
}

impl LeaseHolder {
    /// It holds until then at least, by [`boot_time`]. An earlier end than the one before is passed over.
    pub fn extend(&self, until: Duration) {
        self.hold(millis(until));
    }

    /// It holds until it is told to end.
    pub fn grant(&self) {
        self.hold(FOR_EVER);
    }

    fn hold(&self, until: u64) {
        self.turn(|known| known.max(until));
    }

    /// It holds until then and no longer, whatever was said before.
    fn set(&self, until: u64) {
        self.turn(|_| until);
    }

    fn turn(&self, until: impl Fn(u64) -> u64) {
        self.term.send_if_modified(|term| {
            let (before, known) = (*term, self.until.load(Ordering::Acquire));
            term.lapse(known);
            // Only under the lock of the term is it written.
            let until = until(known);
            self.until.store(until, Ordering::Release);
            term.holds |= within(until);
            term.holds != before.holds || term.losses != before.losses
        });
    }

    /// Says that it has ended, if by now it has; else when that is to be asked again.
    pub fn lapse(&self) -> Option<Duration> {
        let (until, now) = (self.until.load(Ordering::Acquire), millis(boot_time()));
        if now < until {
            return Some(Duration::from_millis(until - now));
        }
        self.term.send_if_modified(|term| term.lapse(until));
        None
    }

    /// It has ended, and the session may go on.
    pub fn lose(&self) {
        self.turn(|known| known.min(millis(boot_time())));
        self.lapse();
    }

    /// The session is over, and with it every ownership.
    pub fn end(&self) {
        self.term.send_if_modified(|term| {
            term.losses.lapses += u64::from(term.holds);
            term.losses.sessions += 1;
            term.holds = false;
            self.until.fetch_min(millis(boot_time()), Ordering::Release);
            true
        });
    }
}

impl Term {
    /// Takes note of an end by the clock; `true` if there was one.
    fn lapse(&mut self, until: u64) -> bool {
        let lapsed = self.holds && !within(until);
        if lapsed {
            self.holds = false;
            self.losses.lapses += 1;
        }
        lapsed
    }
}

fn within(until: u64) -> bool {
    until == FOR_EVER || millis(boot_time()) < until
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The clock of a thread that simulates several processes.
#[cfg(any(test, feature = "model"))]
pub(super) mod simulated {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static NOW: Cell<Option<Duration>> = const { Cell::new(None) };
    }

    /// From here on, for this thread.
    pub(in super::super) fn set(now: Duration) {
        NOW.set(Some(now));
    }

    pub(super) fn now() -> Option<Duration> {
        NOW.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_without_an_end_holds_as_it_is_told() {
        let (holder, lease) = Lease::new(true);
        assert!(lease.holds() && lease.lost_for().is_none());
        holder.end();
        assert!(!lease.holds() && lease.lost_for().is_some());
        holder.grant();
        assert!(lease.holds());
    }

    #[test]
    fn the_clock_ends_a_lease_before_anybody_says_so() {
        let (holder, lease) = Lease::ending();
        assert!(!lease.holds());
        holder.extend(boot_time() + Duration::from_millis(40));
        assert!(lease.holds());
        std::thread::sleep(Duration::from_millis(60));
        assert!(!lease.holds());
        let lost = lease.losses();
        assert_eq!(lost, Losses { lapses: 1, sessions: 0 });
        assert!(lease.lost_for().unwrap() >= Duration::from_millis(10));
        assert_eq!(holder.lapse(), None);
        assert_eq!(lease.losses(), lost, "said or not, it is one loss");
    }

    #[test]
    fn a_loss_that_nobody_saw_is_counted() {
        let (holder, lease) = Lease::ending();
        holder.extend(boot_time() + Duration::from_millis(10));
        let before = lease.losses();
        std::thread::sleep(Duration::from_millis(20));
        holder.extend(boot_time() + Duration::from_secs(60));
        assert!(lease.holds());
        assert_eq!(lease.losses(), Losses { lapses: before.lapses + 1, sessions: 0 });
        holder.extend(boot_time() + Duration::from_secs(90));
        assert_eq!(lease.losses().lapses, before.lapses + 1, "an extension in time is no loss");
    }

    #[test]
    fn the_end_of_a_session_is_told_from_an_end_by_the_clock() {
        let (holder, lease) = Lease::ending();
        holder.extend(boot_time() + Duration::from_secs(60));
        holder.end();
        holder.extend(boot_time() + Duration::from_secs(60));
        assert!(lease.holds());
        assert_eq!(lease.losses(), Losses { lapses: 1, sessions: 1 });
        holder.end();
        holder.end();
        assert_eq!(lease.losses(), Losses { lapses: 2, sessions: 3 }, "what does not hold is not lost again");
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

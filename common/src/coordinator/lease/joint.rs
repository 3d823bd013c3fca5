//! One lease that rests on several sessions: it holds while each of them surely lives. Whoever asks
//! need not know which of them a partition is owned under.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Lease, LeaseHolder, boot_time, millis};

/// The share without which the lease never holds.
const FIRST: u64 = 0;

/// Makes the shares. Clones are the same.
#[derive(Clone, Debug)]
pub struct Joint(Arc<Mutex<Shares>>);

#[derive(Debug)]
struct Shares {
    holder: LeaseHolder,
    /// Milliseconds of [`boot_time`] until which each session surely lives. Held for a look, never over I/O.
    until: BTreeMap<u64, u64>,
    made: u64,
}

/// One session's part. Dropped, it leaves the lease as it is.
#[derive(Debug)]
pub struct Share {
    key: u64,
    of: Joint,
}

impl Joint {
    /// With the first share: the lease never holds without it.
    pub fn new() -> (Self, Share, Lease) {
        let (holder, lease) = Lease::ending();
        let joint = Self(Arc::new(Mutex::new(Shares { holder, until: BTreeMap::from([(FIRST, 0)]), made: FIRST })));
        (joint.clone(), Share { key: FIRST, of: joint }, lease)
    }

    /// Of one more session. The lease does not rest on it before it is extended or entered.
    pub fn share(&self) -> Share {
        let mut shares = self.lock();
        shares.made += 1;
        Share { key: shares.made, of: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shares {
    /// The earliest end of all is the lease's, also where that is earlier than was said before.
    fn settle(&self) {
        if let Some(until) = self.until.values().min() {
            self.holder.set(*until);
        }
    }

    fn leave(&mut self, key: u64) {
        match self.until.get_mut(&key) {
            Some(until) if key == FIRST => *until = millis(boot_time()).min(*until),
            Some(_) | None => drop(self.until.remove(&key)),
        }
    }
}

impl Share {
    /// The session lives until then at least, by [`boot_time`]. An earlier end than the one before is passed over.
    pub fn extend(&self, until: Duration) {
        let mut shares = self.of.lock();
        let known = shares.until.entry(self.key).or_default();
        *known = millis(until).max(*known);
        shares.settle();
    }

    /// From here on the lease rests on this session: if it was not extended before, it does not hold until it is.
    pub fn enter(&self) {
        let mut shares = self.of.lock();
        shares.until.entry(self.key).or_insert_with(|| millis(boot_time()));
        shares.settle();
    }

    /// Nothing is owned under this session any more: the lease goes on without it.
    pub fn withdraw(&self) {
        let mut shares = self.of.lock();
        shares.leave(self.key);
        shares.settle();
    }

    /// Says that the session need not live any more, if that is so by now; else when that is to be asked again.
    pub fn lapse(&self) -> Option<Duration> {
        let shares = self.of.lock();
        let (until, now) = (shares.until.get(&self.key).copied().unwrap_or(0), millis(boot_time()));
        if now < until {
            return Some(Duration::from_millis(until - now));
        }
        shares.holder.lapse();
        None
    }

    /// The session is over. What was owned under the others is to be given up, too.
    pub fn end(&self) {
        let mut shares = self.of.lock();
        shares.leave(self.key);
        shares.holder.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Losses;
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn joined() -> (Joint, Share, Lease) {
        let (joint, first, lease) = Joint::new();
        first.extend(boot_time() + MINUTE);
        assert!(lease.holds());
        (joint, first, lease)
    }

    #[test]
    fn a_lease_holds_no_longer_than_the_session_that_is_nearest_to_its_end() {
        let (joint, first, lease) = joined();
        let second = joint.share();
        assert!(lease.holds(), "it does not rest on a session that is still being opened");
        second.extend(boot_time() + Duration::from_millis(30));
        first.extend(boot_time() + MINUTE * 2);
        assert!(lease.holds());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!lease.holds(), "before anybody says so");
        first.extend(boot_time() + MINUTE * 3);
        assert!(!lease.holds(), "one session alone does not bring it back");
        assert!(second.lapse().is_none() && first.lapse().is_some());
        second.extend(boot_time() + MINUTE);
        assert!(lease.holds());
        assert_eq!(lease.losses(), Losses { lapses: 1, sessions: 0 });
    }

    #[test]
    fn a_session_that_entered_and_was_not_extended_stops_everything() {
        let (joint, _first, lease) = joined();
        let second = joint.share();
        second.enter();
        assert!(!lease.holds());
        second.extend(boot_time() + MINUTE);
        second.enter();
        assert!(lease.holds());
    }

    #[test]
    fn the_end_of_any_session_is_the_end_of_all_that_was_owned() {
        let (joint, first, lease) = joined();
        let second = joint.share();
        second.extend(boot_time() + MINUTE);
        second.end();
        assert!(!lease.holds());
        assert_eq!(lease.losses(), Losses { lapses: 1, sessions: 1 });
        first.extend(boot_time() + MINUTE * 2);
        assert!(lease.holds(), "the first is enough again for what is claimed anew");
    }

    #[test]
    fn without_the_first_session_it_does_not_hold() {
        let (joint, first, lease) = joined();
        let second = joint.share();
        second.extend(boot_time() + MINUTE);
        first.end();
        second.extend(boot_time() + MINUTE * 2);
        assert!(!lease.holds());
        assert!(lease.lost_for().unwrap() < MINUTE, "it is known since when");
        first.extend(boot_time() + MINUTE);
        assert!(lease.holds());
    }

    #[test]
    fn a_session_that_is_not_needed_any_more_is_not_waited_for() {
        let (joint, _first, lease) = joined();
        let second = joint.share();
        second.extend(boot_time() + Duration::from_millis(20));
        second.withdraw();
        std::thread::sleep(Duration::from_millis(40));
        assert!(lease.holds());
        assert_eq!(lease.losses(), Losses::default());
    }
}

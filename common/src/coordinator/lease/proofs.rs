//! Until when a session surely lives, known from the writes that its servers acknowledged.
//!
//! A write goes through the leader, and proves that the session lived then. It does not make it live
//! longer there: a follower passes a client's requests on to the leader (`LearnerHandler`, `REQUEST`,
//! to `PrepRequestProcessor`), which checks the session and does not touch it, and tells that the
//! client was heard with its answer to the leader's next ping only (`LearnerSessionTracker`,
//! `Learner.ping`). Cut off in between, it takes that with it, and the session ends by what the leader
//! heard before. So the end of a lease follows from two times: of the last write, and of the last that
//! is settled, whose ping must have been answered since. A session that is opened, or taken up again
//! on another connection, is settled by that: the leader itself is asked (`createSession`,
//! `REVALIDATE`).

use std::collections::VecDeque;
use std::time::Duration;

/// By [`boot_time`](super::boot_time).
#[derive(Debug, Default)]
pub struct Proofs {
    timeout: Duration,
    /// The leader has heard of the session since.
    settled: Duration,
    /// Writes of which that is not known yet, in the order of their sending.
    unsettled: VecDeque<Write>,
}

#[derive(Debug)]
struct Write {
    sent: Duration,
    acknowledged: Duration,
}

impl Proofs {
    /// Of a session that the leader was asked for no earlier than `asked`.
    pub fn of(timeout: Duration, asked: Duration) -> Self {
        Self { timeout, settled: asked, unsettled: VecDeque::new() }
    }

    /// The leader was asked for it again.
    pub fn taken_up(&mut self, asked: Duration) {
        self.settled = self.settled.max(asked);
    }

    /// Until when the session may be relied on.
    pub fn acknowledged(&mut self, sent: Duration, now: Duration) -> Duration {
        let settling = self.settling();
        while let Some(write) = self.unsettled.pop_front_if(|write| write.acknowledged + settling <= sent) {
            self.settled = self.settled.max(write.sent);
        }
        // So few that they are bounded, and so many that none is missed by much.
        if self.unsettled.back().is_none_or(|last| last.sent + self.timeout / 24 <= sent) {
            self.unsettled.push_back(Write { sent, acknowledged: now });
        }
        (sent + self.timeout * 2 / 3).min(self.settled + self.timeout * 11 / 12)
    }

    /// Pings are half a tick apart, and a session lasts two ticks at least. What was acknowledged so
    /// long before another write was sent, on whichever connection, is told to the leader before that.
    fn settling(&self) -> Duration {
        self.timeout / 4
    }

    /// The longest time from a write until it is settled, if others follow `apart`.
    pub fn settle_within(&self, apart: Duration) -> Duration {
        self.settling() + apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(12);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(100 + seconds)
    }

    fn lease(proofs: &mut Proofs, seconds: u64) -> u64 {
        (proofs.acknowledged(at(seconds), at(seconds)) - at(0)).as_secs()
    }

    #[test]
    fn a_session_that_was_just_opened_is_relied_on_for_two_thirds() {
        assert_eq!(lease(&mut Proofs::of(T, at(0)), 0), 8);
    }

    #[test]
    fn a_write_after_a_long_silence_promises_no_more_than_what_the_leader_has_surely_heard() {
        let mut proofs = Proofs::of(T, at(0));
        assert_eq!(lease(&mut proofs, 7), 11, "and not 7 + 8: the session may end at 12");
        assert_eq!(lease(&mut proofs, 9), 11);
        assert_eq!(lease(&mut proofs, 10), 7 + 11, "the one at 7 is settled after a quarter");
    }

    #[test]
    fn an_answer_that_came_late_settles_late() {
        let mut proofs = Proofs::of(T, at(0));
        proofs.acknowledged(at(4), at(6));
        assert_eq!(lease(&mut proofs, 8), 11);
        assert_eq!(lease(&mut proofs, 9), 4 + 11);
    }

    #[test]
    fn writes_in_time_are_relied_on_each_for_two_thirds() {
        let mut proofs = Proofs::of(T, at(0));
        for seconds in 0..40 {
            assert!(lease(&mut proofs, seconds) >= seconds + 7, "at {seconds}");
        }
        for tenth in 0..1000 {
            let now = at(40) + T * tenth / 1000;
            let until = proofs.acknowledged(now, now);
            assert!(until + T / 24 >= now + T * 7 / 12, "{until:?} at {now:?}");
        }
        assert!(proofs.unsettled.len() <= 8, "{}", proofs.unsettled.len());
    }

    #[test]
    fn who_takes_a_session_up_again_has_asked_the_leader() {
        let mut proofs = Proofs::of(T, at(0));
        proofs.taken_up(at(9));
        assert_eq!(lease(&mut proofs, 9), 9 + 8);
    }
}

//! What a connection is waiting for, as seen from its bytes and its requests.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

/// Decides which time limit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No byte of a request has come.
    Idle,
    /// A head has begun to arrive.
    Head,
    /// A request is with the service, or its answer is being produced: the service's own limits hold.
    Busy,
    /// The client does not read, and the socket takes no more.
    Stalled,
}

/// Written by the parts of one connection, all of which run in one task: hence `Relaxed` everywhere.
/// The accept loop looks in from outside, and may be a moment late.
#[derive(Debug)]
pub(super) struct Progress {
    opened: Instant,
    /// When the phase began, counted from `opened`.
    phase_began_ms: AtomicU64,
    /// The only field that another task writes, too.
    asked_to_leave: AtomicBool,
    waker: OnceLock<Waker>,
    busy: AtomicBool,
    head_begun: AtomicBool,
    write_blocked: AtomicBool,
    /// The last answer was a refusal, or none was given to what had begun to arrive.
    refused: AtomicBool,
    end_of_stream: AtomicBool,
    /// Tells one idle time from the next, with nothing seen of what lay between.
    moves: AtomicU32,
}

/// A request from its head to the last byte of its answer, or to the disappearance of its client.
#[derive(Debug)]
pub(super) struct Busy(Arc<Progress>);

impl Progress {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            opened: now,
            phase_began_ms: AtomicU64::new(0),
            asked_to_leave: AtomicBool::new(false),
            waker: OnceLock::new(),
            busy: AtomicBool::new(false),
            head_begun: AtomicBool::new(false),
            write_blocked: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            end_of_stream: AtomicBool::new(false),
            moves: AtomicU32::new(0),
        }
    }

    /// A task's waker stays the same, so the first one is good for ever.
    pub(super) fn wakes(&self, waker: &Waker) {
        let _ = self.waker.set(waker.clone());
    }

    /// Whoever was asked to leave was asked in the phase before.
    pub(super) fn phase_began(&self, now: Instant) {
        self.asked_to_leave.store(false, Relaxed);
        let since_opened = now.saturating_duration_since(self.opened).as_millis();
        self.phase_began_ms.store(u64::try_from(since_opened).unwrap_or(u64::MAX), Relaxed);
    }

    /// For how long the client has kept a request back; `None` while it has one with the service, or was
    /// asked to leave already.
    pub(super) fn waits_for_a_request(&self, now: Instant) -> Option<Duration> {
        let waits = matches!(self.phase(), Phase::Idle | Phase::Head) && !self.asked_to_leave.load(Relaxed);
        waits.then(|| now.saturating_duration_since(self.opened).saturating_sub(Duration::from_millis(self.phase_began_ms.load(Relaxed))))
    }

    /// By the accept loop. The connection decides, since a request may have come meanwhile.
    pub(super) fn ask_to_leave(&self) {
        self.asked_to_leave.store(true, Relaxed);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Whether to leave now. With a request under way the question is forgotten.
    pub(super) fn leaves(&self) -> bool {
        if !self.asked_to_leave.load(Relaxed) {
            return false;
        }
        let leaves = matches!(self.phase(), Phase::Idle | Phase::Head);
        self.asked_to_leave.store(leaves, Relaxed);
        leaves
    }

    pub(super) fn phase(&self) -> Phase {
        if self.write_blocked.load(Relaxed) {
            Phase::Stalled
        } else if self.busy.load(Relaxed) {
            Phase::Busy
        } else if self.head_begun.load(Relaxed) {
            Phase::Head
        } else {
            Phase::Idle
        }
    }

    pub(super) fn moves(&self) -> u32 {
        self.moves.load(Relaxed)
    }

    fn moved(&self) {
        self.moves.store(self.moves().wrapping_add(1), Relaxed);
    }

    pub(super) fn read(&self, bytes: usize) {
        if bytes == 0 {
            self.end_of_stream.store(true, Relaxed);
        } else if !self.busy.load(Relaxed) && !self.head_begun.load(Relaxed) {
            self.head_begun.store(true, Relaxed);
            self.moved();
        }
    }

    pub(super) fn write(&self, blocked: bool) {
        if blocked {
            self.write_blocked.store(true, Relaxed);
        } else if self.write_blocked.load(Relaxed) {
            self.write_blocked.store(false, Relaxed);
            self.moved();
        }
    }

    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.busy.store(true, Relaxed);
        self.head_begun.store(false, Relaxed);
        self.moved();
        Busy(Arc::clone(self))
    }

    /// Whether the client may still be sending what nobody will read, so that closing at once would
    /// make the kernel reset the connection, and the answer be lost with it.
    pub(super) fn may_still_send(&self) -> bool {
        let unanswered_bytes = self.refused.load(Relaxed) || self.head_begun.load(Relaxed);
        unanswered_bytes && !self.end_of_stream.load(Relaxed)
    }
}

impl Busy {
    pub(super) fn answered(&self, status: http::StatusCode) {
        self.0.refused.store(status.is_client_error() || status.is_server_error(), Relaxed);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.store(false, Relaxed);
        self.0.moved();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Arc<Progress> {
        Arc::new(Progress::new(Instant::now()))
    }

    #[test]
    fn who_has_a_request_under_way_is_not_asked_to_leave_and_does_not() {
        let progress = progress();
        let later = Instant::now() + Duration::from_secs(3);
        assert!(progress.waits_for_a_request(later) >= Some(Duration::from_secs(3)));
        let busy = progress.begin();
        assert_eq!(progress.waits_for_a_request(later), None);
        progress.ask_to_leave();
        assert!(!progress.leaves());
        drop(busy);
        assert!(!progress.leaves(), "forgotten, for it came too late");
        progress.phase_began(later);
        assert!(progress.waits_for_a_request(later) < Some(Duration::from_millis(1)));
        progress.ask_to_leave();
        assert!(progress.leaves());
        assert_eq!(progress.waits_for_a_request(later), None, "asked once");
    }

    #[test]
    fn a_request_goes_from_idle_over_its_head_to_busy_and_back() {
        let progress = progress();
        assert_eq!(progress.phase(), Phase::Idle);
        progress.read(1);
        assert_eq!(progress.phase(), Phase::Head);
        let busy = progress.begin();
        progress.read(100);
        assert_eq!(progress.phase(), Phase::Busy);
        drop(busy);
        assert_eq!(progress.phase(), Phase::Idle);
    }

    #[test]
    fn every_idle_time_is_one_of_its_own() {
        let progress = progress();
        let before = progress.moves();
        progress.read(10);
        drop(progress.begin());
        assert_eq!(progress.phase(), Phase::Idle);
        assert_ne!(progress.moves(), before);
    }

    #[test]
    fn a_blocked_write_counts_from_its_last_progress() {
        let progress = progress();
        let _busy = progress.begin();
        progress.write(true);
        assert_eq!(progress.phase(), Phase::Stalled);
        let before = progress.moves();
        progress.write(false);
        progress.write(true);
        assert_ne!(progress.moves(), before);
    }

    #[test]
    fn only_a_client_with_something_left_to_say_is_waited_for() {
        let progress = progress();
        progress.begin().answered(http::StatusCode::OK);
        assert!(!progress.may_still_send());
        progress.begin().answered(http::StatusCode::PAYLOAD_TOO_LARGE);
        assert!(progress.may_still_send());
        progress.read(0);
        assert!(!progress.may_still_send());
    }
}

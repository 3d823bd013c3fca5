//! One unfinished event and where it stands.

use std::sync::Arc;

use tokio::time::Instant;

use super::list::{Nodes, Slot};
use super::state::Tracked;
use crate::event::{Event, Failure, GivenUp};
use crate::ids::Offset;

/// The unfinished events of a partition.
pub(crate) type Entries<P> = Nodes<Tracked<Entry<P>>>;

pub(crate) struct Entry<P> {
    pub(crate) event: Arc<Event<P>>,
    pub(crate) key_hash: u64,
    /// Who is next in its key queue.
    pub(crate) behind: Option<Slot>,
    pub(crate) stage: Stage,
    pub(crate) aim: Aim,
    pub(crate) admitted: Instant,
    /// Where a delay keeps it from being attempted earlier.
    pub(crate) ready_at: Option<Instant>,
    /// When it joined a ready lane; lanes are served in this order.
    pub(crate) turn: u64,
    /// Attempts made, over all rounds.
    pub(crate) attempts: u32,
    /// Of these, under former epochs; they count for the first round.
    pub(crate) carried: u32,
    pub(crate) round: u32,
    pub(crate) attempts_in_round: u32,
    pub(crate) first_attempt: Option<Instant>,
    pub(crate) last_attempt: Option<Instant>,
    /// Set while the processing clock of its round runs; on the active clock.
    pub(crate) expires: Option<Instant>,
    pub(crate) trouble: Option<Box<Trouble>>,
}

/// Legal: Queued → Waiting | Ready; Waiting → Ready; Ready → InFlight | Waiting; InFlight →
/// Waiting | Ready | gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Behind another of its key.
    Queued,
    /// For a delay, a retry, Retry-After or the next round.
    Waiting(Instant),
    Ready,
    InFlight,
}

/// What the next job of an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    Process,
    /// Given up; bypassing it failed this often.
    Bypass {
        failures: u32,
    },
}

/// What went wrong so far.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) failure: Failure,
    /// The processor asked for no attempt before.
    pub(crate) not_before: Option<Instant>,
    /// Why the last bypass failed; it never becomes the reason of the bypass itself.
    pub(crate) bypass_error: Option<String>,
}

impl Trouble {
    /// What went wrong last, for operators.
    pub(crate) fn last(&self) -> Failure {
        match &self.bypass_error {
            Some(error) => Failure::bypass(error, &self.failure),
            None => self.failure.clone(),
        }
    }
}

/// Names one job; a result that comes with another epoch or for another event is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    pub(crate) slot: Slot,
    pub(crate) offset: Offset,
    pub(crate) epoch: crate::ids::Epoch,
}

impl<P> Entry<P> {
    pub(crate) fn new(event: Event<P>, admitted: Instant, ready_at: Option<Instant>, carried: u32) -> Self {
        Self {
            event: Arc::new(event),
            key_hash: 0,
            behind: None,
            stage: Stage::Queued,
            aim: Aim::Process,
            admitted,
            ready_at,
            turn: 0,
            attempts: carried,
            carried,
            round: 0,
            attempts_in_round: carried,
            first_attempt: None,
            last_attempt: None,
            expires: None,
            trouble: None,
        }
    }

    pub(crate) fn given_up(&self) -> GivenUp {
        let failure = self.trouble.as_ref().map_or_else(Failure::unknown, |trouble| trouble.failure.clone());
        let first_attempt = self.first_attempt.unwrap_or(self.admitted);
        GivenUp { failure, attempts: self.attempts, first_attempt, last_attempt: self.last_attempt.unwrap_or(first_attempt) }
    }

    /// Without one that is being made.
    pub(crate) fn failed_attempts(&self) -> u32 {
        let open = self.stage == Stage::InFlight && self.aim == Aim::Process;
        self.attempts.saturating_sub(u32::from(open))
    }

    /// Not before what the processor asked for, whatever the engine would choose.
    pub(crate) fn no_earlier(&self, at: Instant) -> Instant {
        self.trouble.as_ref().and_then(|trouble| trouble.not_before).map_or(at, |asked| asked.max(at))
    }
}

//! What follows from the end of an attempt.

use std::time::Duration;

use tokio::time::Instant;

use super::Core;
use super::entry::{Aim, Entry, Stage, Ticket, Trouble};
use super::list::Slot;
use crate::event::{Failure, Outcome};
use crate::options::OnFailure;

/// The processor itself may say "cut" a moment before the partition is told to stop; asking it
/// again at once would spin.
const PAUSE_AFTER_CUT: Duration = Duration::from_millis(20);

/// How a job ended.
#[derive(Debug)]
pub(crate) enum End {
    Attempt(Outcome),
    Bypass(Result<(), String>),
}

/// What became of the event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Delivered,
    Bypassed {
        failure: Failure,
        attempts: u32,
    },
    /// Another attempt of the round follows.
    Retry,
    /// Another round follows.
    RoundOver,
    /// The bypass follows.
    GivenUp,
    BypassFailed {
        error: String,
    },
    Cut,
    /// Not the result of an attempt in flight under this epoch: it changed nothing.
    Stale,
}

/// Rounds that took too long.
#[derive(Debug, Default)]
pub(crate) struct Expired {
    pub(crate) ended: Vec<(Ticket, Verdict)>,
    /// These end as failed when the caller has stopped them.
    pub(crate) in_flight: Vec<Ticket>,
}

impl<P> Core<P> {
    pub(crate) fn complete(&mut self, ticket: Ticket, end: End, now: Instant) -> Verdict {
        let slot = ticket.slot;
        let Some(aim) = self.in_flight_as(ticket) else { return Verdict::Stale };
        match (aim, end) {
            (Aim::Process, End::Attempt(Outcome::Done)) => {
                self.finish(slot, now);
                Verdict::Delivered
            }
            (Aim::Process, End::Attempt(Outcome::Retry { not_before, failure })) => self.retry(slot, failure, not_before, now),
            (Aim::Process, End::Attempt(Outcome::Failed(failure))) => {
                self.note(slot, failure, None);
                self.end_round(slot, now)
            }
            (Aim::Process, End::Attempt(Outcome::Cut)) => {
                self.cut(slot, now + PAUSE_AFTER_CUT, now);
                Verdict::Cut
            }
            (Aim::Bypass { .. }, End::Bypass(Ok(()))) => {
                let given_up = self.finish(slot, now).given_up();
                Verdict::Bypassed { failure: given_up.failure, attempts: given_up.attempts }
            }
            (Aim::Bypass { failures }, End::Bypass(Err(error))) => {
                let failures = failures.saturating_add(1);
                let entry = &mut self.state.nodes[slot].value;
                entry.aim = Aim::Bypass { failures };
                if let Some(trouble) = &mut entry.trouble {
                    trouble.bypass_error = Some(error.clone());
                }
                let pause = self.pause_after(failures);
                self.wait(slot, now + pause, now);
                Verdict::BypassFailed { error }
            }
            (Aim::Process, End::Bypass(_)) | (Aim::Bypass { .. }, End::Attempt(_)) => Verdict::Stale,
        }
    }

    /// Every job in flight was stopped from outside: as if none of them had begun.
    pub(crate) fn cut_all(&mut self, now: Instant) {
        let open: Vec<Slot> = self.state.iter().filter(|slot| self.state.nodes[*slot].value.stage == Stage::InFlight).collect();
        open.into_iter().for_each(|slot| self.cut(slot, now, now));
    }

    /// Ends the rounds whose processing timeout is over.
    pub(super) fn expire(&mut self, now: Instant) -> Expired {
        let mut expired = Expired::default();
        while let Some(slot) = self.clocks.expired(&self.state.nodes, now) {
            self.clocks.stop(&mut self.state.nodes, slot);
            let entry = &self.state.nodes[slot].value;
            let ticket = Ticket { slot, offset: entry.event.offset, epoch: self.epoch };
            match entry.stage {
                Stage::InFlight => {
                    expired.in_flight.push(ticket);
                    continue;
                }
                Stage::Ready => self.ready.remove(&mut self.state.nodes, slot),
                Stage::Waiting(due) => {
                    self.waiting.remove(&(due, slot));
                }
                Stage::Queued => unreachable!("the clock starts with an attempt, and only a head is attempted"),
            }
            self.note(slot, Failure::processing_timeout(self.last_failure(slot)), None);
            let verdict = self.set_next(slot, now);
            expired.ended.push((ticket, verdict));
        }
        expired
    }

    fn last_failure(&self, slot: Slot) -> Option<&Failure> {
        self.state.nodes[slot].value.trouble.as_ref().map(|trouble| &trouble.failure)
    }

    fn in_flight_as(&self, ticket: Ticket) -> Option<Aim> {
        let tracked = self.state.nodes.get(ticket.slot)?;
        let same = ticket.epoch == self.epoch && tracked.offset == ticket.offset.0;
        (same && tracked.value.stage == Stage::InFlight).then_some(tracked.value.aim)
    }

    fn retry(&mut self, slot: Slot, failure: Failure, not_before: Option<Instant>, now: Instant) -> Verdict {
        self.note(slot, failure, not_before);
        self.tries += u64::from(self.options.on_failure == OnFailure::Bypass);
        let entry = &self.state.nodes[slot].value;
        let made = entry.attempts_in_round;
        if made > self.options.retry_times {
            return self.end_round(slot, now);
        }
        let at = now + self.pause_after(made);
        self.wait(slot, self.state.nodes[slot].value.no_earlier(at), now);
        Verdict::Retry
    }

    fn note(&mut self, slot: Slot, failure: Failure, not_before: Option<Instant>) {
        let trouble = &mut self.state.nodes[slot].value.trouble;
        match trouble {
            Some(known) => {
                known.failure = failure;
                known.not_before = not_before.max(known.not_before);
            }
            None => {
                self.pending_retries += 1;
                *trouble = Some(Box::new(Trouble { failure, not_before, bypass_error: None }));
            }
        }
    }

    fn end_round(&mut self, slot: Slot, now: Instant) -> Verdict {
        self.in_flight -= 1;
        self.clocks.stop(&mut self.state.nodes, slot);
        self.set_next(slot, now)
    }

    /// After a round: the bypass, or another round. The entry is in no list but that of offsets.
    fn set_next(&mut self, slot: Slot, now: Instant) -> Verdict {
        let entry = &mut self.state.nodes[slot].value;
        match self.options.on_failure {
            OnFailure::Bypass => {
                entry.aim = Aim::Bypass { failures: 0 };
                self.line_up(slot, now, now);
                Verdict::GivenUp
            }
            OnFailure::AnotherRound { sleep } => {
                entry.round = entry.round.saturating_add(1);
                entry.attempts_in_round = 0;
                let at = entry.no_earlier(now + sleep);
                self.line_up(slot, at, now);
                Verdict::RoundOver
            }
        }
    }

    fn cut(&mut self, slot: Slot, again: Instant, now: Instant) {
        let entry = &mut self.state.nodes[slot].value;
        if entry.aim == Aim::Process {
            entry.attempts = entry.attempts.saturating_sub(1);
            entry.attempts_in_round = entry.attempts_in_round.saturating_sub(1);
            if entry.attempts == entry.carried {
                entry.first_attempt = None;
            }
            let none_yet = if entry.round == 0 { entry.carried } else { 0 };
            if entry.attempts_in_round == none_yet {
                self.clocks.stop(&mut self.state.nodes, slot);
            }
        }
        self.wait(slot, again, now);
    }

    fn wait(&mut self, slot: Slot, until: Instant, now: Instant) {
        self.in_flight -= 1;
        self.line_up(slot, until, now);
    }

    fn finish(&mut self, slot: Slot, now: Instant) -> Entry<P> {
        self.clocks.stop(&mut self.state.nodes, slot);
        let next = self.keys.leave(&self.state.nodes, slot);
        let entry = self.state.finish(slot);
        self.in_flight -= 1;
        self.finished += 1;
        self.unfinished_bytes -= entry.event.size_bytes;
        self.pending_retries -= usize::from(entry.trouble.is_some());
        if let Some(next) = next {
            let ready_at = self.state.nodes[next].value.ready_at;
            self.line_up(next, ready_at.unwrap_or(now), now);
        }
        entry
    }

    fn pause_after(&mut self, failures: u32) -> Duration {
        super::backoff::pause_after(failures, self.options.backoff, &mut self.rng)
    }
}

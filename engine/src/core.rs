//! Everything a partition decides, and nothing else: no async, no clock, no I/O. Time and
//! randomness come in as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rand::rngs::SmallRng;
use tokio::time::Instant;

use self::clock::RoundClocks;
use self::entry::{Aim, Entry, Stage, Ticket};
use self::keys::{KeyQueues, Standing};
use self::list::Slot;
use self::ready::{Lane, ReadyLanes};
use self::state::{Seen, StateManager};
use self::verdict::Expired;
use crate::event::{Attempt, Event, Failure, GivenUp};
use crate::ids::{Epoch, Offset};
use crate::options::{OnFailure, Options};
use crate::ports::{MAX_TRIED_RECORDS, Progress};
use crate::status::{Blocked, Oldest};

mod backoff;
mod clock;
pub(crate) mod entry;
mod keys;
mod list;
pub(crate) mod ready;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod verdict;

/// How many events may be ready beyond what can be started.
const READY_AHEAD: usize = 64;

/// One partition under one epoch.
pub(crate) struct Core<P> {
    options: Arc<Options>,
    epoch: Epoch,
    state: StateManager<Entry<P>>,
    keys: KeyQueues,
    ready: ReadyLanes,
    /// Exactly the entries in [`Stage::Waiting`], by when they become ready.
    waiting: BTreeSet<(Instant, Slot)>,
    clocks: RoundClocks,
    rng: SmallRng,
    in_flight: usize,
    unfinished_bytes: usize,
    pending_retries: usize,
    finished: u64,
    /// Attempts made under former epochs, of what has not been read again yet.
    tried: BTreeMap<Offset, u32>,
    /// Grows whenever they or those of now may have changed.
    tries: u64,
}

/// One attempt to make, or one event to bypass.
pub(crate) struct Job<P> {
    pub(crate) ticket: Ticket,
    pub(crate) event: Arc<Event<P>>,
    pub(crate) work: Work,
    /// From when the event could have been attempted; for first attempts.
    pub(crate) waited: Option<Duration>,
}

#[derive(Debug)]
pub(crate) enum Work {
    Process(Attempt),
    Bypass(GivenUp),
}

impl<P> Core<P> {
    pub(crate) fn new(options: Arc<Options>, epoch: Epoch, from: Progress, rng: SmallRng) -> Self {
        Self {
            keys: KeyQueues::new(options.order),
            ready: ReadyLanes::new(&options.event_types),
            clocks: RoundClocks::new(options.processing_timeout),
            tried: from.tries.iter().copied().filter(|_| options.on_failure == OnFailure::Bypass).collect(),
            tries: 0,
            options,
            epoch,
            state: StateManager::new(from),
            waiting: BTreeSet::new(),
            rng,
            in_flight: 0,
            unfinished_bytes: 0,
            pending_retries: 0,
            finished: 0,
        }
    }

    /// Whether more events are ready than will be started soon: no need to hold more in memory yet.
    pub(crate) fn has_plenty(&self) -> bool {
        self.ready.unlimited() >= READY_AHEAD.max(2 * self.options.worker_num)
    }

    /// What keeps an event of this size out. With nothing unfinished any event may come in.
    pub(crate) fn full(&self, size_bytes: usize) -> Option<Blocked> {
        if self.state.len() == 0 {
            None
        } else if self.state.len() >= self.options.max_in_flight_records {
            Some(Blocked::MaxInFlightRecords)
        } else if self.unfinished_bytes.saturating_add(size_bytes) > self.options.max_in_flight_bytes {
            Some(Blocked::MaxInFlightBytes)
        } else {
            None
        }
    }

    /// Takes an event in; the caller has asked [`Core::full`]. `wall_now` is needed for a delay.
    pub(crate) fn admit(&mut self, event: Event<P>, now: Instant, wall_now: Option<SystemTime>) -> Seen {
        let (offset, size_bytes) = (event.offset, event.size_bytes);
        let seen = self.state.seen(offset);
        match seen {
            Seen::Repeated => {}
            Seen::Done => self.state.advance(offset.next()),
            Seen::New => {
                let delay = self.options.delay.zip(wall_now);
                let ready_at = delay.and_then(|(delay, wall_now)| backoff::ready_at(event.time_ms, delay, now, wall_now));
                let carried = self.tried.remove(&offset).unwrap_or(0);
                let slot = self.state.admit(offset, Entry::new(event, now, ready_at, carried));
                self.unfinished_bytes += size_bytes;
                if self.keys.join(&mut self.state.nodes, slot) == Standing::Head {
                    self.line_up(slot, ready_at.unwrap_or(now), now);
                }
            }
        }
        seen
    }

    /// Everything below was read, and what was not admitted counts as done.
    pub(crate) fn advance(&mut self, to: Offset) {
        self.state.advance(to);
    }

    /// Moves on what time has come for: waiting events become ready, and rounds past their
    /// processing timeout end.
    pub(crate) fn tick(&mut self, now: Instant) -> Expired {
        while let Some((_, slot)) = self.waiting.first().copied().filter(|(due, _)| *due <= now) {
            self.waiting.pop_first();
            self.ready.push(&mut self.state.nodes, slot);
        }
        self.expire(now)
    }

    /// When [`Core::tick`] next has something to do, if nothing else happens before.
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        if self.clocks.is_paused() {
            return None;
        }
        let due = self.waiting.first().map(|(due, _)| *due);
        [due, self.clocks.next(&self.state.nodes)].into_iter().flatten().min()
    }

    pub(crate) fn lanes(&self) -> std::ops::Range<Lane> {
        self.ready.lanes()
    }

    pub(crate) fn nothing_ready(&self) -> bool {
        self.ready.is_empty()
    }

    /// The turn of the first ready event of a lane.
    pub(crate) fn turn(&self, lane: Lane) -> Option<u64> {
        self.ready.first(&self.state.nodes, lane).map(|(turn, _)| turn)
    }

    /// Starts the first ready event of a lane.
    pub(crate) fn take(&mut self, lane: Lane, now: Instant) -> Option<Job<P>> {
        let (_, slot) = self.ready.first(&self.state.nodes, lane)?;
        self.ready.remove(&mut self.state.nodes, slot);
        self.in_flight += 1;
        let entry = &mut self.state.nodes[slot].value;
        entry.stage = Stage::InFlight;
        let event = Arc::clone(&entry.event);
        let ticket = Ticket { slot, offset: event.offset, epoch: self.epoch };
        if matches!(entry.aim, Aim::Bypass { .. }) {
            let work = Work::Bypass(entry.given_up());
            return Some(Job { ticket, event, work, waited: None });
        }
        let attempt = Attempt { number: entry.attempts, round: entry.round, epoch: self.epoch };
        let could_start = entry.ready_at.map_or(entry.admitted, |ready_at| ready_at.max(entry.admitted));
        let waited = (entry.attempts == 0).then(|| now.saturating_duration_since(could_start));
        entry.attempts = entry.attempts.saturating_add(1);
        entry.attempts_in_round = entry.attempts_in_round.saturating_add(1);
        entry.first_attempt.get_or_insert(now);
        entry.last_attempt = Some(now);
        self.clocks.start(&mut self.state.nodes, slot, now);
        Some(Job { ticket, event, work: Work::Process(attempt), waited })
    }

    /// Whether a round ends now by its processing timeout.
    pub(crate) fn expires_by(&self, now: Instant) -> bool {
        self.clocks.expired(&self.state.nodes, now).is_some()
    }

    /// Processing clocks stand still from now on, or since a moment ago.
    pub(crate) fn pause(&mut self, since: Instant) {
        self.clocks.pause(since);
    }

    pub(crate) fn resume(&mut self, now: Instant) {
        self.clocks.resume(now);
    }

    /// O(unfinished).
    pub(crate) fn progress(&self) -> Progress {
        Progress { tries: self.tries(), ..self.state.progress() }
    }

    fn tries(&self) -> Vec<(Offset, u32)> {
        if self.options.on_failure != OnFailure::Bypass {
            return Vec::new();
        }
        let of_entries =
            self.state.iter().map(|slot| &self.state.nodes[slot].value).map(|entry| (entry.event.offset, entry.failed_attempts()));
        let of_those_to_come = self.tried.range(self.state.position()..).map(|(offset, attempts)| (*offset, *attempts));
        of_entries.chain(of_those_to_come).filter(|(_, attempts)| *attempts > 0).take(MAX_TRIED_RECORDS).collect()
    }

    pub(crate) fn cursor(&self) -> Offset {
        self.state.cursor()
    }

    /// The next offset that would be read.
    pub(crate) fn position(&self) -> Offset {
        self.state.position()
    }

    /// Grows whenever the progress may have changed.
    pub(crate) fn revision(&self) -> u64 {
        self.state.revision() + self.tries
    }

    /// Events finished under this epoch.
    pub(crate) fn finished(&self) -> u64 {
        self.finished
    }

    pub(crate) fn unfinished(&self) -> usize {
        self.state.len()
    }

    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.unfinished_bytes
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Unfinished events with a failed attempt.
    pub(crate) fn pending_retries(&self) -> usize {
        self.pending_retries
    }

    pub(crate) fn done_above_cursor(&self) -> u64 {
        self.state.done_above_cursor()
    }

    /// Keys with anything unfinished.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn oldest_since(&self) -> Option<Instant> {
        self.state.oldest().map(|slot| self.state.nodes[slot].value.admitted)
    }

    pub(crate) fn oldest(&self) -> Option<Oldest> {
        let entry = &self.state.nodes[self.state.oldest()?].value;
        Some(Oldest {
            offset: entry.event.offset,
            since: entry.admitted,
            attempts: entry.attempts,
            last_failure: entry.trouble.as_ref().map(|trouble| trouble.last()),
        })
    }

    /// Attempts made of an unfinished event, and the last thing that went wrong with it.
    pub(crate) fn trouble(&self, ticket: Ticket) -> Option<(u32, &Failure)> {
        let entry = &self.state.nodes.get(ticket.slot)?.value;
        entry.trouble.as_ref().map(|trouble| (entry.attempts, &trouble.failure))
    }

    /// Ready now, or waiting until then.
    fn line_up(&mut self, slot: Slot, at: Instant, now: Instant) {
        if at <= now {
            self.ready.push(&mut self.state.nodes, slot);
        } else {
            self.state.nodes[slot].value.stage = Stage::Waiting(at);
            self.waiting.insert((at, slot));
        }
    }
}

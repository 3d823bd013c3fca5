//! The processing clock: for how long the current round of an event has been worked on.
//!
//! It stands still while the partition may not work. All rounds have the same time to live, so the
//! running ones form a list in the order in which they expire.

use std::time::Duration;

use tokio::time::Instant;

use super::entry::Entries;
use super::list::{List, Slot};

/// The list of events whose processing clock runs, by expiry.
const BY_EXPIRY: usize = 2;

/// Time that stands still during pauses, as an `Instant` on an axis of its own.
#[derive(Debug)]
struct ActiveClock {
    paused: Duration,
    paused_since: Option<Instant>,
    /// A pause that is found out late does not reach back before this.
    resumed: Option<Instant>,
}

impl ActiveClock {
    fn at(&self, now: Instant) -> Instant {
        self.paused_since.map_or(now, |since| since.min(now)) - self.paused
    }
}

pub(crate) struct RoundClocks {
    timeout: Option<Duration>,
    clock: ActiveClock,
    running: List<BY_EXPIRY>,
}

impl RoundClocks {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        let clock = ActiveClock { paused: Duration::ZERO, paused_since: None, resumed: None };
        Self { timeout, clock, running: List::default() }
    }

    pub(crate) fn pause(&mut self, since: Instant) {
        self.clock.paused_since.get_or_insert(self.clock.resumed.map_or(since, |resumed| resumed.max(since)));
    }

    pub(crate) fn resume(&mut self, now: Instant) {
        if let Some(since) = self.clock.paused_since.take() {
            self.clock.paused += now.saturating_duration_since(since);
            self.clock.resumed = Some(now);
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.clock.paused_since.is_some()
    }

    /// Starts the clock of a round, unless it runs.
    pub(crate) fn start<P>(&mut self, entries: &mut Entries<P>, slot: Slot, now: Instant) {
        if let Some(timeout) = self.timeout
            && entries[slot].value.expires.is_none()
        {
            entries[slot].value.expires = Some(self.clock.at(now) + timeout);
            self.running.push_back(entries, slot);
        }
    }

    pub(crate) fn stop<P>(&mut self, entries: &mut Entries<P>, slot: Slot) {
        if entries[slot].value.expires.take().is_some() {
            self.running.remove(entries, slot);
        }
    }

    /// The first whose time is over. The caller must stop its clock.
    pub(crate) fn expired<P>(&self, entries: &Entries<P>, now: Instant) -> Option<Slot> {
        let first = self.running.head()?;
        let expires = entries[first].value.expires?;
        (!self.is_paused() && expires <= self.clock.at(now)).then_some(first)
    }

    /// When the next one expires, if the clock goes on running.
    pub(crate) fn next<P>(&self, entries: &Entries<P>) -> Option<Instant> {
        let expires = entries[self.running.head()?].value.expires?;
        (!self.is_paused()).then(|| expires + self.clock.paused)
    }
}

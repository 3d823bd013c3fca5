//! The gate before the processor, and whether it was found shut.

use tokio::time::Instant;

use crate::core::verdict::End;
use crate::event::Outcome;
use crate::ports::Gate;

pub(super) struct Watched {
    gate: Box<dyn Gate>,
    state: State,
}

/// As last seen by who stopped the clocks for it.
#[derive(PartialEq, Eq)]
enum State {
    Open,
    Shut,
}

impl Watched {
    pub(super) fn new(gate: Box<dyn Gate>) -> Self {
        Self { gate, state: State::Open }
    }

    pub(super) fn is_open(&self) -> bool {
        self.gate.shut_since().is_none()
    }

    /// Since when the processing clocks should have stood still, if they should.
    pub(super) fn shut(&mut self) -> Option<Instant> {
        let since = self.gate.shut_since();
        if since.is_some() {
            self.state = State::Shut;
        }
        since
    }

    /// Whether it is open again after it was [`shut`](Self::shut); says so once.
    pub(super) fn opened(&mut self) -> bool {
        let opened = self.state == State::Shut && self.is_open();
        if opened {
            self.state = State::Open;
        }
        opened
    }

    /// What fails while nothing may be attempted is cut, not failed.
    pub(super) fn judge(&self, end: End) -> End {
        match end {
            End::Attempt(Outcome::Retry { .. } | Outcome::Failed(_)) if !self.is_open() => End::Attempt(Outcome::Cut),
            end => end,
        }
    }
}

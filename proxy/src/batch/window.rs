//! Lines that were handed to the queue, or refused, and are not settled yet: in the order of lines,
//! and a bounded number of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use common::problem::Problem;
use common::queue::{Produce, ProduceError, Produced};
use futures_util::FutureExt;
use tokio::time::{Instant, timeout_at};

use crate::admission::BytesPermit;
use crate::metrics::Metrics;
use crate::produce::{detach, outlive, timed_out};
use crate::refusal;

const MAX_LINES: usize = 4096;
/// A line of any length fits into an empty window.
const MAX_BYTES: usize = 4 * 1024 * 1024;

pub(super) struct Window {
    lines: VecDeque<Flight>,
    bytes: usize,
    metrics: Arc<Metrics>,
    produce_timeout: Duration,
}

struct Flight {
    line: u64,
    state: State,
}

enum State {
    WithQueue { produce: Produce, bytes: usize, held: BytesPermit, deadline: Instant },
    Refused(Problem),
}

pub(super) type Settled = (u64, Result<Produced, Problem>);

impl Window {
    pub(super) fn new(metrics: Arc<Metrics>, produce_timeout: Duration) -> Self {
        Self { lines: VecDeque::new(), bytes: 0, metrics, produce_timeout }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.is_empty() || (self.lines.len() < MAX_LINES && self.bytes + bytes <= MAX_BYTES)
    }

    pub(super) fn handed_over(&mut self, line: u64, produce: Produce, bytes: usize, held: BytesPermit, now: Instant) {
        self.bytes += bytes;
        let deadline = now + self.produce_timeout;
        self.lines.push_back(Flight { line, state: State::WithQueue { produce, bytes, held, deadline } });
    }

    pub(super) fn refused(&mut self, line: u64, problem: Problem) {
        self.lines.push_back(Flight { line, state: State::Refused(problem) });
    }

    /// The oldest line, once it is settled; never, while there is none. Cancel safe.
    pub(super) async fn settle(&mut self) -> Settled {
        let Some(Flight { state, .. }) = self.lines.front_mut() else { return std::future::pending().await };
        let answer = match state {
            // A timer is only for what is not there yet.
            State::WithQueue { produce, deadline, .. } => match produce.now_or_never() {
                Some(answer) => Some(answer),
                None => timeout_at(*deadline, produce).await.ok(),
            },
            State::Refused(_) => None,
        };
        let Flight { line, state } = self.lines.pop_front().expect("it was there a moment ago");
        (line, self.settled(state, answer))
    }

    fn settled(&mut self, state: State, answer: Option<Result<Produced, ProduceError>>) -> Result<Produced, Problem> {
        match state {
            State::Refused(problem) => Err(problem),
            State::WithQueue { produce, bytes, held, .. } => {
                self.bytes -= bytes;
                let answer = answer.unwrap_or_else(|| {
                    outlive(produce, held);
                    Err(timed_out(self.produce_timeout))
                });
                self.metrics.handed_over(refusal::outcome(&answer));
                answer.map_err(|error| refusal::of_produce(&error))
            }
        }
    }
}

/// What the queue has will be answered; that nobody waits for it any more changes no count.
impl Drop for Window {
    fn drop(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let (lines, metrics) = (std::mem::take(&mut self.lines), Arc::clone(&self.metrics));
        detach(async move {
            for Flight { state, .. } in lines {
                if let State::WithQueue { produce, held, .. } = state {
                    metrics.handed_over(refusal::outcome(&produce.await));
                    drop(held);
                }
            }
        });
    }
}

//! The attempts in flight of one partition. No spawn and no channel: the loop polls them itself.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{AbortHandle, AbortRegistration, Abortable, Aborted, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hashbrown::HashMap;
use tokio::time::Instant;

use crate::core::entry::Ticket;
use crate::core::verdict::End;
use crate::core::{Job, Work};
use crate::event::{Attempt, Event, EventType, Failure, Outcome};
use crate::ports::Processor;
use crate::slots::Permits;

/// Everything that an attempt takes with it.
pub(crate) struct Start<P> {
    job: Job<P>,
    permits: Permits,
    stop: Option<AbortRegistration>,
    started: Instant,
}

/// A job that ended by itself.
pub(crate) struct Finished {
    pub(super) ticket: Ticket,
    pub(super) event_type: EventType,
    pub(super) started: Instant,
    pub(super) end: End,
    /// Free once dropped.
    pub(super) permits: Permits,
}

/// `launch` makes the future of a job.
pub(super) struct Attempts<L, F> {
    launch: L,
    running: FuturesUnordered<F>,
    /// By ticket; only where there is a processing timeout.
    stops: Option<HashMap<Ticket, AbortHandle>>,
}

impl<L, F: Future<Output = Finished>> Attempts<L, F> {
    pub(super) fn new(launch: L, stoppable: bool) -> Self {
        Self { launch, running: FuturesUnordered::new(), stops: stoppable.then(HashMap::new) }
    }

    pub(super) fn start<P>(&mut self, job: Job<P>, permits: Permits, started: Instant)
    where
        L: Fn(Start<P>) -> F,
    {
        let stop = self.stops.as_mut().map(|stops| {
            let (handle, registration) = AbortHandle::new_pair();
            stops.insert(job.ticket, handle);
            registration
        });
        self.running.push((self.launch)(Start { job, permits, stop, started }));
    }

    /// The next that ended, if any.
    pub(super) fn poll_finished(&mut self, cx: &mut Context<'_>) -> Option<Finished> {
        let Poll::Ready(finished) = self.running.poll_next_unpin(cx) else { return None };
        if let (Some(finished), Some(stops)) = (&finished, &mut self.stops) {
            stops.remove(&finished.ticket);
        }
        finished
    }

    /// Stops one, past its processing timeout. It ends as failed.
    pub(super) fn stop(&self, ticket: Ticket) {
        if let Some(handle) = self.stops.as_ref().and_then(|stops| stops.get(&ticket)) {
            handle.abort();
        }
    }

    /// Stops all of them; none ends.
    pub(super) fn cut(&mut self) {
        self.running.clear();
        self.stops.iter_mut().for_each(HashMap::clear);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

/// One job, from slot to result, which brings the slot back. Dropped, it frees the slot.
pub(crate) async fn run<P: Send + Sync, Pr: Processor<P>>(processor: Arc<Pr>, start: Start<P>) -> Finished {
    let Start { job: Job { ticket, event, work, .. }, permits, stop, started } = start;
    let end = match work {
        Work::Process(attempt) => End::Attempt(process(&*processor, &event, attempt, stop).await),
        Work::Bypass(given_up) => {
            let bypass = async { processor.bypass(&event, &given_up).await };
            let bypassed = AssertUnwindSafe(bypass).catch_unwind().await;
            End::Bypass(bypassed.unwrap_or_else(|_| Err("the processor panicked while bypassing".into())))
        }
    };
    Finished { ticket, event_type: event.event_type, started, end, permits }
}

/// An attempt; a panic is a failed one.
async fn process<P, Pr: Processor<P>>(processor: &Pr, event: &Event<P>, attempt: Attempt, stop: Option<AbortRegistration>) -> Outcome
where
    P: Send + Sync,
{
    let attempt = AssertUnwindSafe(async { processor.process(event, attempt).await }).catch_unwind();
    let outcome = match stop {
        None => attempt.await,
        Some(stop) => Abortable::new(attempt, stop).await.unwrap_or_else(|Aborted| Ok(Outcome::Failed(Failure::processing_timeout(None)))),
    };
    outcome.unwrap_or_else(|_| Outcome::Retry { not_before: None, failure: Failure::panic() })
}

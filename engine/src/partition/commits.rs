//! When progress is stored: every `commit_interval` while it moves, at once when much is not
//! stored yet, and never more than one write at a time.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::core::Core;
use crate::options::Options;
use crate::ports::{CommitError, CursorSink, Progress};

/// However much a sink asks for.
const LONGEST_INTERVAL: Duration = Duration::from_secs(300);

type Answer = (Progress, Result<(), CommitError>);

pub(super) struct Commits<C> {
    sink: Arc<C>,
    interval: Duration,
    max_unstored: u64,
    under_way: Option<UnderWay>,
    stored: Mark,
    /// Nothing is sent before, unless much is not stored.
    next_at: Instant,
    last_took: Duration,
    /// What the sink asked for at the last answer.
    least_interval: Duration,
    error: Option<String>,
}

struct UnderWay {
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
    mark: Mark,
    since: Instant,
}

/// How far the core was when a progress was taken from it.
#[derive(Clone, Copy, Default)]
struct Mark {
    revision: u64,
    finished: u64,
}

impl Mark {
    fn of<P>(core: &Core<P>) -> Self {
        Self { revision: core.revision(), finished: core.finished() }
    }
}

impl<C: CursorSink> Commits<C> {
    pub(super) fn new(sink: C, options: &Options, now: Instant) -> Self {
        Self {
            sink: Arc::new(sink),
            interval: options.commit_interval,
            max_unstored: u64::try_from(options.max_unstored_completions.max(1)).unwrap_or(u64::MAX),
            under_way: None,
            stored: Mark::default(),
            next_at: now,
            last_took: Duration::ZERO,
            least_interval: Duration::ZERO,
            error: None,
        }
    }

    /// The answer to the write under way, once.
    pub(super) fn poll_answer(&mut self, now: Instant, cx: &mut Context<'_>) -> Option<Answer> {
        let under_way = self.under_way.as_mut()?;
        let Poll::Ready((progress, result)) = under_way.answer.as_mut().poll(cx) else { return None };
        self.last_took = now.saturating_duration_since(under_way.since);
        self.least_interval = self.sink.least_interval().min(LONGEST_INTERVAL);
        self.next_at = self.next_at.max(under_way.since + self.least_interval);
        match &result {
            Ok(()) => {
                self.stored = under_way.mark;
                self.error = None;
            }
            Err(error) => {
                self.next_at = self.next_at.max(now + self.interval);
                self.error = Some(error.to_string());
            }
        }
        self.under_way = None;
        Some((progress, result))
    }

    /// Sends a write if one is due.
    pub(super) fn send_due<P>(&mut self, core: &Core<P>, now: Instant) -> bool {
        let much = self.unstored(core) >= self.max_unstored.div_ceil(2) && self.error.is_none();
        let due = self.due(core).is_some_and(|at| much || at <= now);
        if due {
            let (sink, progress) = (Arc::clone(&self.sink), core.progress());
            self.under_way = Some(UnderWay { answer: Box::pin(commit(sink, progress)), mark: Mark::of(core), since: now });
            self.next_at = now + self.interval;
        }
        due
    }

    /// When the next write is due, if progress has moved and none is under way.
    pub(super) fn due<P>(&self, core: &Core<P>) -> Option<Instant> {
        (self.under_way.is_none() && core.revision() != self.stored.revision).then_some(self.next_at)
    }

    /// Finished events whose progress is not stored.
    pub(super) fn unstored<P>(&self, core: &Core<P>) -> u64 {
        core.finished() - self.stored.finished
    }

    pub(super) fn full<P>(&self, core: &Core<P>) -> bool {
        self.unstored(core) >= self.max_unstored
    }

    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_none()
    }

    pub(super) fn effective_interval(&self) -> Duration {
        self.interval.max(self.last_took).max(self.least_interval)
    }

    pub(super) fn error(&self) -> Option<&String> {
        self.error.as_ref()
    }
}

async fn commit<C: CursorSink>(sink: Arc<C>, progress: Progress) -> Answer {
    let result = AssertUnwindSafe(async { sink.commit(progress.clone()).await }).catch_unwind().await;
    let result = result.unwrap_or_else(|_| Err(CommitError::Again("the sink panicked".into())));
    (progress, result)
}

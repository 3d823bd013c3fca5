//! When the fleet is looked at afresh.

use std::time::Duration;

use common::coordinator::CoordinatorError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::wanted::{Controls, Rest, View};

/// Nothing changes unseen for longer than this, even without a hint.
const TICK: Duration = Duration::from_secs(10);
/// Reads that failed are tried again after this.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// However often hints come, the next read begins so long after the last.
const MIN_APART: Duration = Duration::from_millis(5);
const MAX_APART: Duration = Duration::from_secs(1);

/// How much is read: where thousands of partitions are owned, their pairs are most of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Whole,
    WhatChanged,
}

/// What there is to be seen of a look, one after the other.
pub(super) enum Seen {
    Controls(Controls),
    View(Result<View, CoordinatorError>),
}

enum Look {
    Controls(BoxFuture<'static, (Controls, Rest)>),
    Rest(Rest),
}

pub(super) struct Looking {
    under_way: Option<Look>,
    began: Instant,
    /// The next one, but not before the rest after the last.
    next: Instant,
    rest: Instant,
    /// When everything is looked at, and not only what changed.
    whole: Instant,
}

/// That something which partitions are shared by may have changed.
pub(super) struct Hints {
    pub(super) coordinator: watch::Receiver<u64>,
    pub(super) topics: watch::Receiver<u64>,
}

impl Hints {
    /// Cancel safe.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            biased;
            Ok(()) = self.coordinator.changed() => {}
            Ok(()) = self.topics.changed() => {}
            else => std::future::pending().await,
        }
    }
}

impl Looking {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { under_way: None, began: now, next: now, rest: now, whole: now }
    }

    /// What happens during a look is not surely seen by it: another follows.
    pub(super) fn soon(&mut self) {
        self.next = self.next.min(self.began);
    }

    /// No later than then.
    pub(super) fn by(&mut self, due: Instant) {
        self.next = self.next.min(due);
    }

    /// The next look is a whole one.
    pub(super) fn wholly(&mut self) {
        self.whole = self.began;
    }

    /// Begins a look if one is due and none is under way.
    pub(super) fn pursue<F>(&mut self, now: Instant, look: impl FnOnce(Depth) -> F)
    where
        F: Future<Output = (Controls, Rest)> + Send + 'static,
    {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        let depth = if now >= self.whole { Depth::Whole } else { Depth::WhatChanged };
        if depth == Depth::Whole {
            self.whole = now + TICK;
        }
        self.under_way = Some(Look::Controls(look(depth).boxed()));
        (self.began, self.next) = (now, now + TICK);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.under_way.is_none().then(|| self.next.max(self.rest))
    }

    /// For ever while nobody looks. Cancel safe.
    pub(super) async fn next_seen(&mut self) -> Seen {
        match &mut self.under_way {
            Some(Look::Controls(look)) => {
                let (controls, rest) = look.await;
                self.under_way = Some(Look::Rest(rest));
                Seen::Controls(controls)
            }
            Some(Look::Rest(rest)) => Seen::View(rest.await),
            None => std::future::pending().await,
        }
    }

    pub(super) fn viewed(&mut self, read: Result<View, CoordinatorError>) -> Option<View> {
        self.under_way = None;
        let now = Instant::now();
        // Where looks take long they are half of the time at most.
        self.rest = now + (now - self.began).clamp(MIN_APART, MAX_APART);
        match read {
            Ok(view) => Some(view),
            Err(error) => {
                warn!(%error, retry_in = ?TRY_AGAIN, "what this process should own could not be read; it goes on with what it owns");
                self.next = self.next.min(now + TRY_AGAIN);
                self.wholly();
                None
            }
        }
    }
}

//! The one timer of a partition. An idle partition has none that runs.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep, sleep_until};

pub(super) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    armed: Option<Instant>,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self { sleep: Box::pin(sleep_until(Instant::now())), armed: None }
    }

    /// Whether to look again now. Otherwise the task is woken at `at`, or earlier: moving the timer
    /// back for every event would cost more than a needless look.
    pub(super) fn poll(&mut self, at: Option<Instant>, cx: &mut Context<'_>) -> bool {
        let Some(at) = at else { return false };
        if self.armed.is_none_or(|armed| at < armed) {
            self.sleep.as_mut().reset(at);
            self.armed = Some(at);
        }
        let rings = self.sleep.as_mut().poll(cx).is_ready();
        if rings {
            self.armed = None;
        }
        rings
    }
}

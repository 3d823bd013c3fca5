//! How far an upload has come, its rate and the time left: on a terminal, and nowhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::grouped;

/// What is counted beside the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    Lines,
}

#[derive(Clone)]
pub(super) struct Meter {
    bar: ProgressBar,
    unit: Unit,
    lines: Arc<AtomicU64>,
}

impl Meter {
    /// `total`: in bytes, where it is known.
    pub(super) fn new(total: Option<u64>, unit: Unit) -> Self {
        let template = match total {
            Some(_) => "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left{msg}",
            None => "{spinner} {bytes} sent, {bytes_per_sec}{msg}",
        };
        // Indicatif draws nothing where stderr is no terminal.
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(5));
        bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar, unit, lines: Arc::default() }
    }

    pub(super) fn sent(&self, chunk: &[u8]) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.inc(chunk.len() as u64);
        if self.unit == Unit::Lines {
            let more = chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
            let lines = self.lines.fetch_add(more, Ordering::Relaxed) + more;
            self.bar.set_message(format!(", {} lines", grouped(lines)));
        }
    }

    /// Takes the bar away; what remains to be said is the answer.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

//! Log lines about a stream of events, without a stream of log lines.

use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(10);
const LINES_PER_WINDOW: u32 = 5;

/// Lets a few lines through in each window, and counts the rest.
#[derive(Debug)]
pub(super) struct Seldom {
    lines_per_window: u32,
    window: Option<Instant>,
    lines: u32,
    left_out: u64,
}

/// A line that may be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// How many were left out before it, if any.
    pub(super) left_out: Option<u64>,
}

impl Default for Seldom {
    fn default() -> Self {
        Self { lines_per_window: LINES_PER_WINDOW, window: None, lines: 0, left_out: 0 }
    }
}

impl Seldom {
    /// For what every partition of every group may have to say at once, as when a network is down.
    pub(super) fn one_per_window() -> Self {
        Self { lines_per_window: 1, ..Self::default() }
    }

    /// The line, if it may be written.
    pub(super) fn line(&mut self, now: Instant) -> Option<Line> {
        if self.window.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            self.window = Some(now);
            self.lines = 0;
        }
        if self.lines == self.lines_per_window {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        let left_out = std::mem::take(&mut self.left_out);
        Some(Line { left_out: (left_out > 0).then_some(left_out) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_and_told_later() {
        let (mut seldom, start) = (Seldom::default(), Instant::now());
        let told: Vec<_> = (0..8).map(|_| seldom.line(start).map(|line| line.left_out)).collect();
        assert_eq!(told, [Some(None), Some(None), Some(None), Some(None), Some(None), None, None, None]);
        assert_eq!(seldom.line(start + WINDOW), Some(Line { left_out: Some(3) }));
        assert_eq!(seldom.line(start + WINDOW), Some(Line { left_out: None }), "nothing is said of nothing");
    }
}

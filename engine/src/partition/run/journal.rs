//! What a partition loop tells operators: metrics and log lines.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::Instant;

use crate::core::Core;
use crate::core::entry::Ticket;
use crate::core::verdict::Verdict;
use crate::ids::Offset;
use crate::metrics::PartitionMetrics;
use crate::partition::seldom::{Line, Seldom};
use crate::ports::{CommitError, SourceError};
use crate::status::Blocked;
use crate::task::Label;

/// Being at a bound is ordinary under load; for so long it is not.
const BLOCKED_FOR_LONG: Duration = Duration::from_secs(10);

pub(super) struct Journal {
    group: String,
    label: Label,
    metrics: PartitionMetrics,
    failures: Seldom,
    bypasses: Seldom,
    bypass_failures: Seldom,
    commit_failures: Seldom,
    blocks: Seldom,
    blocked_since: Option<Instant>,
    commit_fails: bool,
}

impl Journal {
    pub(super) fn new(group: String, label: Label, metrics: PartitionMetrics) -> Self {
        Self {
            group,
            label,
            metrics,
            failures: Seldom::one_per_window(),
            bypasses: Seldom::default(),
            bypass_failures: Seldom::default(),
            commit_failures: Seldom::default(),
            blocks: Seldom::default(),
            blocked_since: None,
            commit_fails: false,
        }
    }

    pub(super) fn verdict(&mut self, offset: Offset, verdict: Verdict, now: Instant) {
        let (group, topic, partition) = (&self.group, &self.label.topic, self.label.partition);
        match verdict {
            Verdict::Delivered => {
                self.metrics.delivered.inc();
            }
            Verdict::Bypassed { failure, attempts } => {
                self.metrics.bypassed(failure.reason);
                if let Some(Line { left_out }) = self.bypasses.line(now) {
                    let (reason, code, detail) = (failure.reason, failure.code, failure.detail);
                    tracing::warn!(%group, %topic, partition, %offset, attempts, reason, code, detail, left_out, "event given up and bypassed");
                }
            }
            Verdict::BypassFailed { error } => {
                self.metrics.bypass_failures.inc();
                if let Some(Line { left_out }) = self.bypass_failures.line(now) {
                    tracing::warn!(%group, %topic, partition, %offset, error, left_out, "bypass failed; its key waits, it is tried again");
                }
            }
            Verdict::RoundOver | Verdict::GivenUp | Verdict::Retry | Verdict::Cut | Verdict::Stale => {}
        }
    }

    /// After an attempt that failed, whatever follows from it.
    pub(super) fn failed<P>(&mut self, core: &Core<P>, ticket: Ticket, verdict: &Verdict, now: Instant) {
        let Some(Line { left_out }) = self.failures.line(now) else { return };
        let Some((attempts, failure)) = core.trouble(ticket) else { return };
        let (group, topic, partition, offset) = (&self.group, &self.label.topic, self.label.partition, ticket.offset);
        let (reason, code, detail) = (failure.reason, failure.code, &failure.detail);
        let next = if *verdict == Verdict::Retry { "it is tried again; its key waits" } else { "its round is used up" };
        tracing::warn!(%group, %topic, partition, %offset, attempts, reason, code, detail, left_out, next, "attempt failed");
    }

    pub(super) fn skipped(&self, reason: &'static str) {
        self.metrics.skipped(reason);
    }

    pub(super) fn source_ended(&self, error: &SourceError, position: Offset) {
        let (group, topic, partition) = (&self.group, &self.label.topic, self.label.partition);
        match error {
            SourceError::Failed(_) => {
                tracing::error!(%group, %topic, partition, %position, %error, "reading stopped; what was read before goes on being delivered");
            }
            SourceError::Gone(_) => {
                tracing::info!(%group, %topic, partition, %position, %error, "reading ended: there is nothing to read any more");
            }
        }
    }

    pub(super) fn committed(&mut self, result: &Result<(), CommitError>, cursor: Offset, now: Instant) {
        let (group, topic, partition) = (&self.group, &self.label.topic, self.label.partition);
        match result {
            Ok(()) if self.commit_fails => tracing::info!(%group, %topic, partition, %cursor, "cursor is stored again"),
            Ok(()) => {}
            Err(error @ CommitError::Again(_)) => {
                if let Some(Line { left_out }) = self.commit_failures.line(now) {
                    tracing::warn!(%group, %topic, partition, %cursor, %error, left_out, "cursor not stored; tried again with the next interval");
                }
            }
            Err(error @ CommitError::Over(_)) => {
                tracing::warn!(%group, %topic, partition, %cursor, %error, "attempts cut; this partition writes nothing more");
            }
        }
        self.commit_fails = result.is_err();
    }

    /// Called whenever the loop comes to rest or makes way for others.
    pub(super) fn publish<P>(&mut self, core: &Core<P>, blocked: Option<Blocked>, commit_interval: Duration, now: Instant) {
        let gauges = &self.metrics.gauges;
        gauges.cursor.store(core.cursor().0, Relaxed);
        gauges.queued.store((core.unfinished() - core.in_flight()) as u64, Relaxed);
        gauges.in_flight.store(core.in_flight() as u64, Relaxed);
        gauges.done_set.store(core.done_above_cursor(), Relaxed);
        gauges.pending_retries.store(core.pending_retries() as u64, Relaxed);
        gauges.blocked.store(u64::from(blocked.is_some()), Relaxed);
        gauges.commit_interval_micros.store(commit_interval.as_micros() as u64, Relaxed);
        gauges.set_oldest(core.oldest_since());
        self.note_blocked(core, blocked, now);
    }

    fn note_blocked<P>(&mut self, core: &Core<P>, blocked: Option<Blocked>, now: Instant) {
        let Some(bound) = blocked else {
            self.blocked_since = None;
            return;
        };
        let since = *self.blocked_since.get_or_insert(now);
        if now.saturating_duration_since(since) < BLOCKED_FOR_LONG {
            return;
        }
        self.blocked_since = Some(now);
        if let Some(Line { left_out }) = self.blocks.line(now) {
            let (group, topic, partition) = (&self.group, &self.label.topic, self.label.partition);
            let (offset, unfinished, bound) = (core.cursor(), core.unfinished(), bound.name());
            let error = core.oldest().and_then(|oldest| oldest.last_failure).map(|failure| failure.detail);
            tracing::warn!(%group, %topic, partition, %offset, unfinished, bound, error, left_out, "blocked: reading waits for this offset");
        }
    }
}

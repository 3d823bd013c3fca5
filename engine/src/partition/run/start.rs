//! Starting attempts: in turns with the other partitions, and only while all permissions hold.

use std::future::Future;
use std::task::Context;

use tokio::time::Instant;

use super::{PartitionLoop, Phase};
use crate::core::ready::Lane;
use crate::core::verdict::Expired;
use crate::partition::Permission;
use crate::partition::attempts::{Finished, Start};
use crate::ports::{CursorSink, Decoder, Source};

impl<D, S, C, L, F> PartitionLoop<D, S, C, L, F>
where
    D: Decoder,
    S: Source<Record = D::Record>,
    C: CursorSink,
    L: Fn(Start<D::Payload>) -> F + Send + 'static,
    F: Future<Output = Finished> + Send + 'static,
{
    /// Starts what may start. `true`: something changed.
    pub(super) fn start(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        if self.core.expires_by(now)
            && let Some(since) = self.gate.shut()
        {
            self.core.pause(since);
        }
        let Expired { ended, in_flight } = self.core.tick(now);
        let mut moved = !ended.is_empty() || !in_flight.is_empty();
        in_flight.into_iter().for_each(|ticket| self.attempts.stop(ticket));
        ended.iter().for_each(|(ticket, verdict)| self.journal.failed(&self.core, *ticket, verdict, now));
        while self.may_start()
            && let Some(lane) = self.next_lane(cx)
        {
            let Some(permits) = self.turns.poll_start(lane, cx) else { return moved };
            let Some(job) = self.core.take(lane, now) else { break };
            if let Some(waited) = job.waited {
                self.shared.metrics.enqueue_wait.observe(waited.as_secs_f64());
            }
            self.attempts.start(job, permits, now);
            moved = true;
        }
        // Nothing to start, or not allowed to: slots that were asked for go to somebody else.
        self.turns.leave_workers();
        moved
    }

    /// The lane whose first event has waited longest, among those that their limits let start.
    fn next_lane(&mut self, cx: &mut Context<'_>) -> Option<Lane> {
        let Self { core, turns, .. } = self;
        let startable = core.lanes().filter_map(|lane| match core.turn(lane) {
            Some(turn) => turns.poll_lane(lane, cx).then_some((turn, lane)),
            None => {
                turns.leave_lane(lane);
                None
            }
        });
        startable.min().map(|(_, lane)| lane)
    }

    fn may_start(&mut self) -> bool {
        let may = matches!(self.phase, Phase::Working)
            && self.control.order().permission == Permission::Run
            && !self.commits.full(&self.core)
            && (self.core.nothing_ready() || self.gate.is_open());
        if !may {
            self.core.lanes().for_each(|lane| self.turns.leave_lane(lane));
        }
        may && !self.core.nothing_ready()
    }
}

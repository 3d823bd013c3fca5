//! Reading: as much as there is room for, and no more than will be started soon.

use std::task::Context;

use tokio::time::Instant;

use super::{PartitionLoop, Phase};
use crate::event::Event;
use crate::partition::Permission;
use crate::partition::intake::{MAX_BATCH_BYTES, MIN_BATCH_BYTES, Taken};
use crate::ports::{Decoded, Decoder, Source, SourceError};
use crate::status::{Blocked, Ended};

const ADMISSIONS_PER_PASS: usize = 1024;

impl<D: Decoder, S: Source<Record = D::Record>, C, L, F> PartitionLoop<D, S, C, L, F> {
    /// Admits what there is room for. `true`: something was read.
    pub(super) fn read(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        self.blocked = None;
        if !matches!(self.phase, Phase::Working) {
            return false;
        }
        // Read once, and only for a delay.
        let wall_now = self.shared.options.delay.map(|_| self.shared.clock.now());
        for read in 0..ADMISSIONS_PER_PASS {
            if self.core.has_plenty() {
                return read > 0;
            }
            match self.intake.take(&self.shared.decoder, &self.shared.options.event_types) {
                Taken::Record(Decoded::Event(event)) => {
                    if let Some(blocked) = self.no_room(&event, cx) {
                        self.intake.hold_back(event);
                        self.blocked = Some(blocked);
                        return read > 0;
                    }
                    self.core.admit(event, now, wall_now);
                }
                Taken::Record(Decoded::Skip { offset, reason }) => {
                    self.journal.skipped(reason);
                    self.core.advance(offset.next());
                }
                Taken::BatchEnd(next_offset) => self.core.advance(next_offset),
                Taken::Nothing if self.fetch(cx) => {}
                Taken::Nothing => return read > 0,
                Taken::DecoderPanicked => {
                    let text = format!("decoding a record at or after offset {} panicked", self.core.position());
                    self.source_ended(SourceError::Failed(text));
                    return true;
                }
            }
        }
        true
    }

    fn no_room(&mut self, event: &Event<D::Payload>, cx: &mut Context<'_>) -> Option<Blocked> {
        let blocked = self.core.full(event.size_bytes);
        if blocked.is_some() {
            self.cover.leave();
            return blocked;
        }
        let covered = self.cover.poll_up_to(self.core.unfinished_bytes().saturating_add(event.size_bytes), cx);
        if !covered && self.core.unfinished() > 0 {
            return Some(Blocked::Budget);
        }
        self.cover.leave();
        None
    }

    /// Asks for the next batch. A paused partition reads nothing.
    fn fetch(&mut self, cx: &mut Context<'_>) -> bool {
        if self.order.permission != Permission::Run {
            return false;
        }
        self.blocked = self.core.full(1);
        if self.blocked.is_some() {
            return false;
        }
        let free = self.shared.options.max_in_flight_bytes.saturating_sub(self.core.unfinished_bytes());
        let max_bytes = free.min(self.shared.budget.available_bytes()).clamp(MIN_BATCH_BYTES, MAX_BATCH_BYTES);
        self.intake.poll_fetch(max_bytes, cx).unwrap_or_else(|error| {
            self.source_ended(error);
            false
        })
    }

    fn source_ended(&mut self, error: SourceError) {
        self.journal.source_ended(&error, self.core.position());
        self.intake.close();
        self.life.send_modify(|life| {
            life.ended.get_or_insert(Ended::Source(error));
        });
    }
}

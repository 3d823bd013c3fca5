//! How many repeats there may be.

use std::time::{Duration, Instant};

use super::Report;
use crate::chaos::faults::{Deed, Fault, Kind};
use crate::chaos::operator::REPLAYED;
use crate::chaos::traffic::Sent;
use crate::chaos::verdict::Cause;
use crate::chaos::world::{COMMIT_INTERVAL, GROUPS, PUSHERS, SESSION, WORKERS, topics_of};

impl Report {
    /// How many may be delivered again because of `cause`.
    pub(super) fn bound(&self, cause: Cause) -> usize {
        let count = |kind: Kind, deeds: &[Deed]| self.done.faults.iter().filter(|f| f.kind == kind && deeds.contains(&f.deed)).count();
        let of_one = WORKERS * GROUPS.len();
        let delivered = self.sum(|verdict| verdict.delivered);
        let done_within = |time: Duration| (delivered as f64 / self.chaos.duration.as_secs_f64() * time.as_secs_f64()) as usize;
        // The interval before and the one that was under way.
        let unstored = done_within(2 * COMMIT_INTERVAL);
        // Without ZooKeeper, what is done while the lease lasts.
        let unstorable = unstored + done_within(SESSION * 2 / 3);
        let away = [Deed::Kill, Deed::Terminate, Deed::Freeze, Deed::CutOff, Deed::CutOffPeers, Deed::Slow];
        match cause {
            // What was in flight; of a receiver from all pushers, and again for each timeout that passes meanwhile.
            Cause::AnswerLost => {
                let receivers = count(Kind::Receiver, &away) * 4 + count(Kind::Receiver, &[Deed::Reset]);
                let pushers = count(Kind::Pusher, &[Deed::Freeze, Deed::CutOff, Deed::Terminate]);
                receivers * WORKERS * PUSHERS + pushers * of_one + count(Kind::ZooKeeper, &away) * of_one * PUSHERS
            }
            // And what another fault meanwhile repeated: which of the two it was is not told apart.
            Cause::Replay => self.replayed + count(Kind::Operator, &[Deed::Replay]) * (of_one * PUSHERS + unstorable),
            Cause::Takeover(deed @ (Deed::Kill | Deed::Freeze)) => count(Kind::Pusher, &[deed]) * (of_one + unstored),
            Cause::Takeover(deed @ Deed::CutOff) => count(Kind::Pusher, &[deed]) * (of_one + unstorable),
            // Attempts that were cut at the end of the drain.
            Cause::Takeover(deed) => count(Kind::Pusher, &[deed]) * of_one,
            Cause::OtherTakeover => count(Kind::ZooKeeper, &away) * (of_one * PUSHERS + unstorable),
        }
    }
}

/// A moment more, for clocks and for a message whose answer is late.
const MOMENT: Duration = Duration::from_secs(2);

/// What lay within the reach of a replay.
pub(super) fn within_reach(replay: &Fault, sent: &Sent) -> usize {
    let topics = topics_of(&replay.whom);
    let reached = |at: &Instant| *at + REPLAYED + MOMENT >= replay.from && *at <= replay.to + MOMENT;
    sent.acked.iter().filter(|(acked, at)| topics.contains(&acked.topic.as_str()) && reached(at)).count()
}

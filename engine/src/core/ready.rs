//! Which events may be attempted now, first come first served.
//!
//! An event type with a limit of its own has a lane of its own, so that it holds back nobody else.

use super::entry::{Aim, Entries, Stage};
use super::list::{List, Slot};
use crate::options::EventTypes;

/// The list of ready events of a lane.
const READY: usize = 1;

/// Index of a lane. Lane 0 is for everything without a limit.
pub(crate) type Lane = usize;

pub(crate) struct ReadyLanes {
    lanes: Vec<Queue>,
    /// By event type.
    lane_of: Vec<Lane>,
    turns: u64,
    ready: usize,
}

#[derive(Clone, Default)]
struct Queue {
    list: List<READY>,
    len: usize,
}

impl ReadyLanes {
    pub(crate) fn new(types: &EventTypes) -> Self {
        let lane_of = types.lanes();
        let count = lane_of.iter().max().map_or(0, |last| *last) + 1;
        Self { lanes: vec![Queue::default(); count], lane_of, turns: 0, ready: 0 }
    }

    pub(crate) fn lanes(&self) -> std::ops::Range<Lane> {
        0..self.lanes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready == 0
    }

    /// Ready events whose type has no limit.
    pub(crate) fn unlimited(&self) -> usize {
        self.lanes[0].len
    }

    /// The first of a lane and its turn.
    pub(crate) fn first<P>(&self, entries: &Entries<P>, lane: Lane) -> Option<(u64, Slot)> {
        self.lanes[lane].list.head().map(|slot| (entries[slot].value.turn, slot))
    }

    pub(crate) fn push<P>(&mut self, entries: &mut Entries<P>, slot: Slot) {
        self.turns += 1;
        entries[slot].value.turn = self.turns;
        entries[slot].value.stage = Stage::Ready;
        let lane = self.lane(entries, slot);
        self.lanes[lane].list.push_back(entries, slot);
        self.lanes[lane].len += 1;
        self.ready += 1;
    }

    /// The entry must be ready, with the aim it was pushed with.
    pub(crate) fn remove<P>(&mut self, entries: &mut Entries<P>, slot: Slot) {
        let lane = self.lane(entries, slot);
        self.lanes[lane].list.remove(entries, slot);
        self.lanes[lane].len -= 1;
        self.ready -= 1;
    }

    /// Bypassing is no attempt of the event's type.
    fn lane<P>(&self, entries: &Entries<P>, slot: Slot) -> Lane {
        let entry = &entries[slot].value;
        match entry.aim {
            Aim::Process => self.lane_of.get(usize::from(entry.event.event_type.0)).map_or(0, |lane| *lane),
            Aim::Bypass { .. } => 0,
        }
    }
}

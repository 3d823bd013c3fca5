//! Key queues: events of one key wait for each other, in offset order.
//!
//! Only the last event of each key is kept in the table, and it leaves with that event: memory
//! follows what is unfinished, not the keys that were seen.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

use super::entry::Entries;
use super::list::Slot;
use crate::event::Event;
use crate::options::Order;

/// Up to this capacity an emptied table keeps its memory.
const KEPT_CAPACITY_KEYS: usize = 256;

pub(crate) struct KeyQueues {
    order: Order,
    tails: HashTable<Slot>,
    hasher: RandomState,
}

/// Where an event stands in its key queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Head,
    Behind,
}

impl KeyQueues {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, tails: HashTable::new(), hasher: RandomState::default() }
    }

    /// Keys with anything unfinished.
    pub(crate) fn len(&self) -> usize {
        self.tails.len()
    }

    /// Events must come in offset order.
    pub(crate) fn join<P>(&mut self, entries: &mut Entries<P>, slot: Slot) -> Standing {
        let Some(hash) = self.hash(&entries[slot].value.event) else { return Standing::Head };
        entries[slot].value.key_hash = hash;
        let event = &entries[slot].value.event;
        let same = |tail: &Slot| self.order == Order::Partition || entries[*tail].value.event.key == event.key;
        let tail = match self.tails.entry(hash, same, |tail| entries[*tail].value.key_hash) {
            Place::Vacant(place) => {
                place.insert(slot);
                return Standing::Head;
            }
            Place::Occupied(mut place) => std::mem::replace(place.get_mut(), slot),
        };
        entries[tail].value.behind = Some(slot);
        Standing::Behind
    }

    /// Takes the head of its queue out; returns the new head. An event without order is its own.
    pub(crate) fn leave<P>(&mut self, entries: &Entries<P>, slot: Slot) -> Option<Slot> {
        let entry = &entries[slot].value;
        if let Some(behind) = entry.behind {
            return Some(behind);
        }
        if self.is_ordered(&entry.event) {
            if let Ok(place) = self.tails.find_entry(entry.key_hash, |tail| *tail == slot) {
                place.remove();
            }
            if self.tails.is_empty() && self.tails.capacity() > KEPT_CAPACITY_KEYS {
                self.tails = HashTable::new();
            }
        }
        None
    }

    fn is_ordered<P>(&self, event: &Event<P>) -> bool {
        match self.order {
            Order::Key => event.key.is_some(),
            Order::Partition => true,
            Order::None => false,
        }
    }

    fn hash<P>(&self, event: &Event<P>) -> Option<u64> {
        match (self.order, &event.key) {
            (Order::Key, Some(key)) => Some(self.hasher.hash_one(key)),
            (Order::Partition, _) => Some(0),
            (Order::Key, None) | (Order::None, _) => None,
        }
    }
}

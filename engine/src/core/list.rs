//! Doubly linked lists threaded through a slab: joining and leaving at any place is O(1) and
//! allocates nothing, and an entry that leaves never stays behind as a stale copy.

use std::num::NonZeroU32;

use slab::Slab;

/// An entry's place in its partition's slab; used again once the entry has gone. Counted from 1, so
/// that no place takes no room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slot(NonZeroU32);

impl Slot {
    fn new(at: usize) -> Self {
        let number = u32::try_from(at + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("a partition's unfinished records are bounded far below 2^32"))
    }

    fn at(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Up to this capacity an emptied slab keeps its memory.
const KEPT_CAPACITY_RECORDS: usize = 256;

/// How many lists an entry can be in at once.
const LISTS: usize = 3;

#[derive(Clone, Copy, Default)]
struct Link {
    prev: Option<Slot>,
    next: Option<Slot>,
}

struct Node<T> {
    links: [Link; LISTS],
    value: T,
}

/// The slab. Bounded by whoever inserts.
pub(crate) struct Nodes<T>(Slab<Node<T>>);

impl<T> Nodes<T> {
    pub(crate) fn new() -> Self {
        Self(Slab::new())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> Slot {
        Slot::new(self.0.insert(Node { links: [Link::default(); LISTS], value }))
    }

    /// The entry must be in no list any more.
    pub(crate) fn remove(&mut self, slot: Slot) -> T {
        let value = self.0.remove(slot.at()).value;
        if self.0.is_empty() && self.0.capacity() > KEPT_CAPACITY_RECORDS {
            self.0 = Slab::new();
        }
        value
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.0.get(slot.at()).map(|node| &node.value)
    }

    fn link(&mut self, slot: Slot, list: usize) -> &mut Link {
        &mut self.0[slot.at()].links[list]
    }
}

impl<T> std::ops::Index<Slot> for Nodes<T> {
    type Output = T;

    fn index(&self, slot: Slot) -> &T {
        &self.0[slot.at()].value
    }
}

impl<T> std::ops::IndexMut<Slot> for Nodes<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.0[slot.at()].value
    }
}

/// List number `L` of the slab. An entry may be in it at most once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct List<const L: usize> {
    head: Option<Slot>,
    tail: Option<Slot>,
}

impl<const L: usize> List<L> {
    pub(crate) fn head(&self) -> Option<Slot> {
        self.head
    }

    pub(crate) fn push_back<T>(&mut self, nodes: &mut Nodes<T>, slot: Slot) {
        *nodes.link(slot, L) = Link { prev: self.tail, next: None };
        match self.tail {
            Some(tail) => nodes.link(tail, L).next = Some(slot),
            None => self.head = Some(slot),
        }
        self.tail = Some(slot);
    }

    /// The entry must be in this list.
    pub(crate) fn remove<T>(&mut self, nodes: &mut Nodes<T>, slot: Slot) {
        let Link { prev, next } = std::mem::take(nodes.link(slot, L));
        match prev {
            Some(prev) => nodes.link(prev, L).next = next,
            None => self.head = next,
        }
        match next {
            Some(next) => nodes.link(next, L).prev = prev,
            None => self.tail = prev,
        }
    }

    /// From head to tail.
    pub(crate) fn iter<'a, T>(&self, nodes: &'a Nodes<T>) -> impl Iterator<Item = Slot> + 'a {
        std::iter::successors(self.head, |slot| nodes.0[slot.at()].links[L].next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_leaves_from_any_place() {
        for leaver in 0..3 {
            let mut nodes = Nodes::new();
            let mut list = List::<1>::default();
            let slots: Vec<_> = (0..3).map(|value| nodes.insert(value)).collect();
            slots.iter().for_each(|slot| list.push_back(&mut nodes, *slot));
            list.remove(&mut nodes, slots[leaver]);
            nodes.remove(slots[leaver]);
            let left: Vec<_> = list.iter(&nodes).map(|slot| nodes[slot]).collect();
            let expected: Vec<_> = (0..3).filter(|value| *value != leaver).collect();
            assert_eq!(left, expected);
            let back = nodes.insert(9);
            list.push_back(&mut nodes, back);
            assert_eq!(list.iter(&nodes).map(|slot| nodes[slot]).last(), Some(9));
        }
    }

    #[test]
    fn an_emptied_slab_gives_its_memory_back() {
        let mut nodes = Nodes::new();
        let slots: Vec<_> = (0..5000).map(|value| nodes.insert(value)).collect();
        slots.into_iter().for_each(|slot| {
            nodes.remove(slot);
        });
        assert!(nodes.0.capacity() <= KEPT_CAPACITY_RECORDS);
    }
}

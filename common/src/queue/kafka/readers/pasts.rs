//! What is remembered of what was read: with which clients a partition is better not read any more.

use std::collections::VecDeque;
use std::hash::Hash;

use foldhash::HashMap;

use super::Place;
use super::client::Number;
use crate::ids::{Topic, TopicId};

/// Of so many topics, and of so many partitions that stood still, the past is known at least, of twice as
/// many at most. Where it is forgotten, a partition may stand still once more before it is read with another client.
pub(super) const MAX_PLACES: usize = 10_000;
/// Clients that are remembered of each: all that there can be at a time, and as many that are gone.
const MAX_NUMBERS: usize = 2 * super::MAX_CLIENTS;

/// A client goes on with what it knew of a topic when another topic takes that name: with a leader's epoch,
/// it ignores the new topic's leaders until their epochs are higher.
pub(super) struct Pasts {
    topics: Recent<Topic, Read>,
    /// The clients on which they did.
    stood_still: Recent<Place, Numbers>,
}

/// Of a name.
#[derive(Default)]
struct Read {
    id: Option<TopicId>,
    /// Clients that read this topic.
    by: Numbers,
    /// Clients that read another one.
    stale: Numbers,
}

impl Pasts {
    pub(super) fn new(max_places: usize) -> Self {
        Self { topics: Recent::new(max_places), stood_still: Recent::new(max_places) }
    }

    pub(super) fn is_read(&mut self, (topic, _): &Place, id: Option<TopicId>, client: Number) {
        let read = self.topics.of(topic);
        if read.id != id {
            for number in std::mem::take(&mut read.by).0 {
                read.stale.add(number);
            }
            read.id = id;
        }
        read.by.add(client);
    }

    pub(super) fn stood_still(&mut self, place: &Place, client: Number) {
        self.stood_still.of(place).add(client);
    }

    /// Whether it stood still on that client, or the client may remember another topic of that name.
    pub(super) fn shun(&self, place: &Place, id: Option<TopicId>, client: Number) -> bool {
        let stood_still = self.stood_still.get(place).is_some_and(|numbers| numbers.has(client));
        let is_stale = |read: &Read| read.stale.has(client) || (read.id != id && read.by.has(client));
        stood_still || self.topics.get(&place.0).is_some_and(is_stale)
    }
}

/// The oldest are forgotten.
#[derive(Default)]
struct Numbers(VecDeque<Number>);

impl Numbers {
    fn has(&self, number: Number) -> bool {
        self.0.contains(&number)
    }

    fn add(&mut self, number: Number) {
        if self.has(number) {
            return;
        }
        if self.0.len() == MAX_NUMBERS {
            self.0.pop_front();
        }
        self.0.push_back(number);
    }
}

/// Forgets what was changed longest ago.
struct Recent<K, V> {
    recent: HashMap<K, V>,
    /// As it was when `recent` was full; no key is in both.
    before: HashMap<K, V>,
    max: usize,
}

impl<K: Clone + Eq + Hash, V: Default> Recent<K, V> {
    fn new(max: usize) -> Self {
        Self { recent: HashMap::default(), before: HashMap::default(), max }
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.recent.get(key).or_else(|| self.before.get(key))
    }

    fn of(&mut self, key: &K) -> &mut V {
        let value = self.recent.remove(key).or_else(|| self.before.remove(key)).unwrap_or_default();
        if self.recent.len() == self.max {
            self.before = std::mem::take(&mut self.recent);
        }
        self.recent.entry(key.clone()).or_insert(value)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::Partition;

    fn place(partition: u32) -> Place {
        (Topic::new("t").unwrap(), Partition(partition))
    }

    fn id(number: u128) -> Option<TopicId> {
        Some(TopicId(Uuid::from_u128(number)))
    }

    fn shunned(pasts: &Pasts, place: &Place, id: Option<TopicId>) -> Vec<u64> {
        (0..200).filter(|number| pasts.shun(place, id, Number(*number))).collect()
    }

    #[test]
    fn a_client_that_read_another_topic_of_that_name_is_shunned_for_good_and_in_all_partitions() {
        let mut pasts = Pasts::new(MAX_PLACES);
        pasts.is_read(&place(0), id(1), Number(3));
        assert!(shunned(&pasts, &place(0), id(1)).is_empty());
        assert_eq!(shunned(&pasts, &place(1), id(2)), [3]);
        pasts.is_read(&place(1), id(2), Number(4));
        assert_eq!(shunned(&pasts, &place(0), id(2)), [3]);
        pasts.is_read(&place(1), id(3), Number(5));
        assert_eq!(shunned(&pasts, &place(0), id(3)), [3, 4]);
    }

    #[test]
    fn a_partition_shuns_every_client_on_which_it_stood_still_and_others_do_not() {
        let mut pasts = Pasts::new(MAX_PLACES);
        for number in [1, 2, 1] {
            pasts.stood_still(&place(0), Number(number));
        }
        assert_eq!(shunned(&pasts, &place(0), id(1)), [1, 2]);
        assert!(shunned(&pasts, &place(1), id(1)).is_empty());
    }

    #[test]
    fn topics_that_come_and_go_are_forgotten_and_what_is_read_on_is_not() {
        const MAX: usize = 100;
        let mut pasts = Pasts::new(MAX);
        let other = |number: u64| (Topic::new(&format!("other-{number}")).unwrap(), Partition(0));
        pasts.is_read(&place(0), id(1), Number(7));
        for number in 1..10_000 {
            pasts.is_read(&other(number), id(1), Number(5));
            if number % 97 == 0 {
                pasts.is_read(&place(0), id(1), Number(7));
            }
            assert!(pasts.topics.recent.len() + pasts.topics.before.len() <= 2 * MAX);
            // At least the last ones are known.
            assert_eq!(shunned(&pasts, &other(number.saturating_sub(90).max(1)), id(2)), [5]);
        }
        assert_eq!(shunned(&pasts, &place(0), id(2)), [7]);
        assert!(shunned(&pasts, &other(1), id(2)).is_empty());
    }

    #[test]
    fn of_clients_that_come_and_go_the_last_ones_are_remembered() {
        let mut pasts = Pasts::new(MAX_PLACES);
        (0..1_000).for_each(|number| pasts.is_read(&place(0), id(u128::from(number)), Number(number)));
        assert!(pasts.shun(&place(0), id(999), Number(998)) && pasts.shun(&place(0), id(999), Number(900)));
        assert!(!pasts.shun(&place(0), id(999), Number(999)) && !pasts.shun(&place(0), id(999), Number(1)));
    }
}

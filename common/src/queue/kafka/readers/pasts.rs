//! What is remembered of partitions that were read: which clients they are better not read with.

use foldhash::HashMap;

use super::Place;
use crate::ids::TopicId;

/// Of so many partitions at least the past is known, of twice as many at most. Where it is
/// forgotten, a partition may stand still once more before it is read with another client.
pub(super) const MAX_PLACES: usize = 10_000;

#[derive(Clone, Copy, Default)]
struct Past {
    /// By which client last, and of which topic of that name.
    read: Option<(Option<TopicId>, usize)>,
    /// On which client it did so last.
    stood_still: Option<usize>,
}

/// What was read longest ago is forgotten: its topic may be gone.
pub(super) struct Pasts {
    recent: HashMap<Place, Past>,
    /// As it was when `recent` was full; no place is in both.
    before: HashMap<Place, Past>,
    max_places: usize,
}

impl Pasts {
    pub(super) fn new(max_places: usize) -> Self {
        Self { recent: HashMap::default(), before: HashMap::default(), max_places }
    }

    pub(super) fn is_read(&mut self, place: &Place, id: Option<TopicId>, client: usize) {
        self.of(place).read = Some((id, client));
    }

    pub(super) fn stood_still(&mut self, place: &Place, client: usize) {
        self.of(place).stood_still = Some(client);
    }

    /// The client on which it stood still, and one that may have seen another topic of that name go:
    /// such a client may read nothing of the next one.
    pub(super) fn to_shun(&self, place: &Place, id: Option<TopicId>) -> [Option<usize>; 2] {
        let past = self.recent.get(place).or_else(|| self.before.get(place)).copied().unwrap_or_default();
        let of_another_topic = past.read.filter(|(last, _)| *last != id).map(|(_, client)| client);
        [past.stood_still, of_another_topic]
    }

    fn of(&mut self, place: &Place) -> &mut Past {
        let past = self.recent.remove(place).or_else(|| self.before.remove(place)).unwrap_or_default();
        if self.recent.len() == self.max_places {
            self.before = std::mem::take(&mut self.recent);
        }
        self.recent.entry(place.clone()).or_insert(past)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::{Partition, Topic};

    fn place(partition: u32) -> Place {
        (Topic::new("t").unwrap(), Partition(partition))
    }

    fn id(number: u128) -> Option<TopicId> {
        Some(TopicId(Uuid::from_u128(number)))
    }

    #[test]
    fn a_partition_shuns_where_it_stood_still_and_who_read_another_topic_of_its_name() {
        let mut pasts = Pasts::new(MAX_PLACES);
        assert_eq!(pasts.to_shun(&place(0), id(1)), [None, None]);
        pasts.is_read(&place(0), id(1), 3);
        assert_eq!(pasts.to_shun(&place(0), id(1)), [None, None]);
        assert_eq!(pasts.to_shun(&place(0), id(2)), [None, Some(3)]);
        pasts.stood_still(&place(0), 3);
        pasts.is_read(&place(0), id(1), 4);
        assert_eq!(pasts.to_shun(&place(0), id(1)), [Some(3), None]);
        assert_eq!(pasts.to_shun(&place(0), id(2)), [Some(3), Some(4)]);
        assert_eq!(pasts.to_shun(&place(1), id(2)), [None, None]);
    }

    #[test]
    fn topics_that_come_and_go_are_forgotten_and_what_is_read_on_is_not() {
        const MAX: usize = 100;
        let mut pasts = Pasts::new(MAX);
        pasts.stood_still(&place(0), 7);
        for others in 1..10_000 {
            pasts.is_read(&place(others), id(1), 5);
            if others % 97 == 0 {
                pasts.is_read(&place(0), id(1), 8);
            }
            assert!(pasts.recent.len() + pasts.before.len() <= 2 * MAX);
            // At least the last ones are known.
            let last = others.saturating_sub(90).max(1);
            assert_eq!(pasts.to_shun(&place(last), id(2)), [None, Some(5)]);
        }
        assert_eq!(pasts.to_shun(&place(0), id(2)), [Some(7), Some(8)]);
        assert_eq!(pasts.to_shun(&place(1), id(2)), [None, None]);
    }
}

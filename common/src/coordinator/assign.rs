//! Which member owns which partition: everybody computes the same answer from the same members.

use xxhash_rust::xxh3::xxh3_64;

use crate::ids::{GroupName, Partition, Topic};

/// For each partition of a topic the index, in `instances`, of the member that is to own it. Empty
/// without members. The order of `instances` changes nothing but the indexes.
///
/// Rendezvous hashing: partitions ascending, each to the member with the highest score that has
/// room. A member has room for ⌊P/N⌋, and P mod N of them for one more: ⌈P/N⌉ for all would let
/// two of three members take all four partitions.
pub fn assign(instances: &[&str], group: &GroupName, topic: &Topic, partitions: u32) -> Vec<usize> {
    let members = instances.len();
    if members == 0 {
        return Vec::new();
    }
    let (fair, mut extra) = (partitions as usize / members, partitions as usize % members);
    let mut load = vec![0; members];
    let place = |partition| {
        let room = |member: &usize| load[*member] < fair || (load[*member] == fair && extra > 0);
        let rank = |member: &usize| (score(instances[*member], group, topic, partition), std::cmp::Reverse(instances[*member]));
        let best = (0..members).filter(room).max_by_key(rank).expect("there is as much room as there are partitions");
        if load[best] == fair {
            extra -= 1;
        }
        load[best] += 1;
        best
    };
    (0..partitions).map(Partition).map(place).collect()
}

/// Every version must compute the same: the names, each ended by a NUL, which none contains, and
/// the partition as four bytes, the highest first.
fn score(instance: &str, group: &GroupName, topic: &Topic, partition: Partition) -> u64 {
    let mut input = Vec::with_capacity(instance.len() + group.as_str().len() + topic.as_str().len() + 7);
    for name in [instance, group.as_str(), topic.as_str()] {
        input.extend_from_slice(name.as_bytes());
        input.push(0);
    }
    input.extend_from_slice(&partition.0.to_be_bytes());
    xxh3_64(&input)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owners(instances: &[String], partitions: u32) -> Vec<String> {
        let names: Vec<&str> = instances.iter().map(String::as_str).collect();
        let (group, topic) = (GroupName::new("g").unwrap(), Topic::new("t").unwrap());
        assign(&names, &group, &topic, partitions).into_iter().map(|member| instances[member].clone()).collect()
    }

    fn fleets() -> impl Strategy<Value = Vec<String>> {
        prop::collection::hash_set("[a-z0-9-]{1,12}", 1..12).prop_map(|names| names.into_iter().collect())
    }

    fn moved(before: &[String], after: &[String]) -> usize {
        before.iter().zip(after).filter(|(before, after)| before != after).count()
    }

    #[test]
    fn nobody_owns_anything_in_an_empty_fleet() {
        assert!(owners(&[], 8).is_empty());
    }

    #[test]
    fn the_score_is_the_same_in_every_version() {
        let (group, topic) = (GroupName::new("g").unwrap(), Topic::new("t").unwrap());
        assert_eq!(score("a", &group, &topic, Partition(258)), xxh3_64(b"a\0g\0t\0\0\0\x01\x02"));
    }

    proptest! {
        #[test]
        fn everybody_has_the_same_within_one(fleet in fleets(), partitions in 0u32..200) {
            let owners = owners(&fleet, partitions);
            prop_assert_eq!(owners.len(), partitions as usize);
            let fair = partitions as usize / fleet.len();
            for member in &fleet {
                let load = owners.iter().filter(|owner| *owner == member).count();
                prop_assert!(load == fair || load == fair + 1, "{} has {} of {}", member, load, partitions);
            }
        }

        #[test]
        fn the_order_of_the_members_does_not_matter(fleet in fleets(), partitions in 0u32..50) {
            let mut reversed = fleet.clone();
            reversed.reverse();
            prop_assert_eq!(owners(&fleet, partitions), owners(&reversed, partitions));
        }
    }

    /// The bound on room moves a few partitions more than pure rendezvous hashing would, and never many.
    #[test]
    fn when_a_member_comes_or_goes_little_more_than_its_share_moves() {
        for members in 1..8 {
            let moves = (0..50).map(|seed| {
                let many: Vec<String> = (0..=members).map(|member| format!("host{seed}-{member}")).collect();
                moved(&owners(&many[..members], 100), &owners(&many, 100))
            });
            let mean = moves.sum::<usize>() as f64 / 50.0;
            let share = 100.0 / (members + 1) as f64;
            assert!(mean < 1.5 * share, "{members} members and one more: {mean} of 100 moved, the share is {share}");
        }
    }
}

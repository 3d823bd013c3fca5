//! Which member owns which partition: everybody computes the same answer from the same members.

use xxhash_rust::xxh3::xxh3_64;

use super::Member;
use crate::ids::{GroupName, GroupPartition, Partition, Topic};

/// Of the rules in this file. A version that shares by others counts on from here, and keeps these
/// for as long as a member of this version may be alive.
pub const PROTO: u32 = 1;

/// By the indexes of instances.
type Function = fn(&[&str], &GroupName, &Topic, u32) -> Vec<usize>;

/// Each with the `proto` from which on it is used.
const FUNCTIONS: [(u32, Function); 1] = [(PROTO, assign)];

/// For each partition of a topic the instance that is to own it, among the members that serve this
/// group and topic; empty without any. Every member, whatever it serves, has a say in the rules:
/// the lowest `proto` alive decides, so that a fleet of two versions computes one answer.
pub fn owners<'a>(members: &'a [Member], group: &GroupName, topic: &Topic, partitions: u32) -> Vec<&'a str> {
    let serves = |member: &&Member| member.groups.get(group.as_str()).is_some_and(|served| served.topics.contains(topic));
    let instances: Vec<&str> = members.iter().filter(serves).map(|member| member.instance.as_str()).collect();
    let function = agreed(&FUNCTIONS, members);
    function(&instances, group, topic, partitions).into_iter().map(|member| instances[member]).collect()
}

/// The members that serve a partition's group and topic, the one that would have it before others first.
pub fn ranked<'a>(members: &'a [Member], at: &GroupPartition) -> Vec<&'a str> {
    let serves = |member: &&Member| member.groups.get(at.group.as_str()).is_some_and(|served| served.topics.contains(&at.topic));
    let mut instances: Vec<&str> = members.iter().filter(serves).map(|member| member.instance.as_str()).collect();
    instances.sort_by_cached_key(|instance| (std::cmp::Reverse(score(instance, &at.group, &at.topic, at.partition)), *instance));
    instances
}

fn agreed(functions: &[(u32, Function)], members: &[Member]) -> Function {
    let lowest = members.iter().map(|member| member.proto).min().unwrap_or(PROTO);
    let known = functions.iter().rev().find(|(proto, _)| *proto <= lowest);
    known.or(functions.first()).map_or(assign, |(_, function)| *function)
}

/// For each partition of a topic the index, in `instances`, of the member that is to own it. Empty
/// without members. The order of `instances` changes nothing but the indexes.
///
/// Rendezvous hashing: partitions ascending, each to the member with the highest score that has
/// room. A member has room for ⌊P/N⌋, and P mod N of them for one more: ⌈P/N⌉ for all would let
/// two of three members take all four partitions.
fn assign(instances: &[&str], group: &GroupName, topic: &Topic, partitions: u32) -> Vec<usize> {
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

    use super::super::{MemberGroup, conformance};
    use super::*;

    fn assigned(instances: &[String], partitions: u32) -> Vec<String> {
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

    fn member(instance: &str, proto: u32, topics: &[&str]) -> Member {
        let topics = topics.iter().map(|topic| Topic::new(topic).unwrap()).collect();
        let groups = [("g".to_owned(), MemberGroup { topics, config: String::new() })].into();
        Member { proto, groups, ..conformance::member(instance) }
    }

    #[test]
    fn only_who_serves_a_topic_gets_any_of_it_and_all_have_a_say_in_the_rules() {
        let members = [member("a", 2, &["t"]), member("b", 1, &["other"]), member("c", 3, &["t"])];
        let (group, topic) = (GroupName::new("g").unwrap(), Topic::new("t").unwrap());
        let owners = owners(&members, &group, &topic, 8);
        assert!(owners.len() == 8 && !owners.contains(&"b"), "{owners:?}");
        assert!(super::owners(&members[1..2], &group, &topic, 8).is_empty());
        let functions: [(u32, Function); 2] = [(1, |_, _, _, _| vec![1]), (2, |_, _, _, _| vec![2])];
        let chosen = |members: &[Member]| agreed(&functions, members)(&[], &group, &topic, 0);
        assert_eq!((chosen(&members), chosen(&members[..1]), chosen(&members[2..])), (vec![1], vec![2], vec![2]));
        assert_eq!(chosen(&[member("old", 0, &[])]), [1]);
    }

    #[test]
    fn nobody_owns_anything_in_an_empty_fleet() {
        assert!(assigned(&[], 8).is_empty());
    }

    #[test]
    fn the_score_is_the_same_in_every_version() {
        let (group, topic) = (GroupName::new("g").unwrap(), Topic::new("t").unwrap());
        assert_eq!(score("a", &group, &topic, Partition(258)), xxh3_64(b"a\0g\0t\0\0\0\x01\x02"));
    }

    proptest! {
        #[test]
        fn everybody_has_the_same_within_one(fleet in fleets(), partitions in 0u32..200) {
            let owners = assigned(&fleet, partitions);
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
            prop_assert_eq!(assigned(&fleet, partitions), assigned(&reversed, partitions));
        }
    }

    /// The bound on room moves a few partitions more than pure rendezvous hashing would, and never many.
    #[test]
    fn when_a_member_comes_or_goes_little_more_than_its_share_moves() {
        for members in 1..8 {
            let moves = (0..50).map(|seed| {
                let many: Vec<String> = (0..=members).map(|member| format!("host{seed}-{member}")).collect();
                moved(&assigned(&many[..members], 100), &assigned(&many, 100))
            });
            let mean = moves.sum::<usize>() as f64 / 50.0;
            let share = 100.0 / (members + 1) as f64;
            assert!(mean < 1.5 * share, "{members} members and one more: {mean} of 100 moved, the share is {share}");
        }
    }
}

//! Where messages that are given up go, and whether they come back.

use std::collections::HashSet;

use crate::config::fault::Report;
use crate::config::file::Group;
use crate::config::section::Given;
use crate::ids::Topic;

/// A group that gives messages up, as far as it could be read.
struct Edge<'a> {
    topics: Vec<&'a Topic>,
    dead: &'a Topic,
}

/// Refuses a group whose dead letters go to a topic of its own, and warns where they come back
/// through others: there it may be meant, but nothing ends it.
pub(super) fn check(groups: &[Given<Group>], report: &mut Report<'_>) {
    let read: Vec<&Group> = groups.iter().filter_map(|group| group.value.as_ref()).collect();
    let edges: Vec<Edge<'_>> =
        read.iter().filter(|group| group.bypass_failed.value == Some(true)).filter_map(|group| edge(group)).collect();
    for group in read {
        let Some(Edge { topics, dead }) = edge(group) else { continue };
        if topics.contains(&dead) {
            let message = format!("{dead} is one of the group's own topics: what it gives up would come back to it for ever");
            report.fault_at(&group.dead_letter_topic.spot, message);
        } else if group.bypass_failed.value == Some(true) && reached(dead, &edges).iter().any(|topic| topics.contains(topic)) {
            let message = format!("what goes to {dead} comes back to this group when those that read it give it up, too");
            report.warning_at(&group.dead_letter_topic.spot, message);
        }
    }
}

fn edge(group: &Group) -> Option<Edge<'_>> {
    let topics = group.topics.value.as_ref()?.iter().filter_map(|topic| topic.value.as_ref()).collect();
    Some(Edge { topics, dead: group.dead_letter_topic.value.as_ref()?.as_ref()? })
}

/// Every topic that a message of `start` may be given up to, over any number of groups.
fn reached<'a>(start: &'a Topic, edges: &[Edge<'a>]) -> HashSet<&'a Topic> {
    let (mut found, mut next) = (HashSet::new(), vec![start]);
    while let Some(topic) = next.pop() {
        let onward = edges.iter().filter(|edge| edge.topics.contains(&topic)).map(|edge| edge.dead);
        next.extend(onward.filter(|dead| found.insert(*dead)));
    }
    found
}

//! The layout, under the chroot.

use std::fmt::Display;

use crate::ids::{GroupName, GroupPartition, Topic};

pub(super) const FLEET: &str = "/mqgate/fleet";

pub(super) fn member(instance: &str) -> String {
    format!("{FLEET}/{instance}")
}

pub(super) fn ids(group: &dyn Display) -> String {
    format!("/consumers/{group}/ids")
}

pub(super) fn id(group: &dyn Display, instance: &str) -> String {
    format!("/consumers/{group}/ids/{instance}")
}

pub(super) fn owner(at: &GroupPartition) -> String {
    of_partition(at, "owners")
}

pub(super) fn cursor(at: &GroupPartition) -> String {
    of_partition(at, "offsets")
}

pub(super) fn done(at: &GroupPartition) -> String {
    of_partition(at, "done")
}

pub(super) fn owners(group: &GroupName, topic: &Topic) -> String {
    format!("/consumers/{group}/owners/{topic}")
}

fn of_partition(at: &GroupPartition, what: &str) -> String {
    format!("/consumers/{}/{what}/{}/{}", at.group, at.topic, at.partition)
}

pub(super) fn cursors(group: &GroupName, topic: &Topic) -> String {
    format!("/consumers/{group}/offsets/{topic}")
}

pub(super) fn birth(group: &GroupName, topic: &Topic) -> String {
    format!("/mqgate/groups/{group}/topics/{topic}")
}

pub(super) fn control(group: &GroupName) -> String {
    format!("/mqgate/groups/{group}/control")
}

pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Partition;

    #[test]
    fn the_layout_is_the_one_of_kafkas_own_consumers() {
        let (group, topic) = (GroupName::new("g").unwrap(), Topic::new("t").unwrap());
        let at = GroupPartition { group: group.clone(), topic: topic.clone(), partition: Partition(7) };
        assert_eq!(cursor(&at), "/consumers/g/offsets/t/7");
        assert_eq!(owner(&at), "/consumers/g/owners/t/7");
        assert_eq!(done(&at), "/consumers/g/done/t/7");
        assert_eq!(cursors(&group, &topic), parent(&cursor(&at)));
        assert_eq!(parent(&member("i")), FLEET);
    }
}

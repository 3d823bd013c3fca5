//! What is read afresh, and what follows from it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use common::coordinator::{Member, assign};
use common::ids::{Epoch, GroupName, GroupPartition, Partition, Topic, TopicId};
use common::queue::TopicInfo;

use crate::births::BackendError;
use crate::group::{Backends, Group};

/// Everything a decision rests on, as of one moment.
pub(super) struct View {
    topics: HashMap<Topic, TopicInfo>,
    members: Vec<Member>,
    pub(super) paused: HashSet<GroupName>,
    /// Owned partitions whose cursor was moved by somebody else, and under which epoch.
    pub(super) moved: Vec<(GroupPartition, Epoch)>,
}

/// A partition that this process should keep.
pub(super) struct Wanted {
    pub(super) group: Arc<Group>,
    pub(super) topic_id: Option<TopicId>,
}

impl View {
    /// All or nothing: half a view would let partitions go that are still ours. The topics come last,
    /// so that a topic that caused the hint is among them.
    pub(super) async fn read(
        groups: &[Arc<Group>],
        backends: &Backends,
        serving: Vec<(GroupPartition, Epoch)>,
    ) -> Result<Self, BackendError> {
        let Backends { queue, coordinator, .. } = backends;
        let mut paused = HashSet::new();
        for group in groups {
            let name = &group.config.group;
            if coordinator.control(name).await?.paused {
                paused.insert(name.clone());
            }
        }
        let moved = coordinator.moved(&serving).await?;
        let epochs: HashMap<_, _> = serving.into_iter().collect();
        let moved = moved.into_iter().filter_map(|at| epochs.get(&at).map(|epoch| (at.clone(), *epoch))).collect();
        let members = coordinator.members().await?;
        let topics = queue.topics().await?.into_iter().map(|info| (info.topic.clone(), info)).collect();
        Ok(Self { topics, members, paused, moved })
    }

    pub(super) fn wanted(&self, groups: &[Arc<Group>], me: &Member) -> HashMap<GroupPartition, Wanted> {
        let mut wanted = HashMap::new();
        for group in groups {
            let name = &group.config.group;
            for info in group.config.topics.iter().filter_map(|topic| self.topics.get(topic)) {
                for partition in self.mine(name, info, me) {
                    let at = GroupPartition { group: name.clone(), topic: info.topic.clone(), partition };
                    wanted.insert(at, Wanted { group: group.clone(), topic_id: info.id });
                }
            }
        }
        wanted
    }

    /// Among the members that serve this group and topic.
    fn mine(&self, group: &GroupName, info: &TopicInfo, me: &Member) -> Vec<Partition> {
        let owners = assign::owners(&self.members, group, &info.topic, info.partitions);
        (0..).map(Partition).zip(owners).filter(|(_, owner)| *owner == me.instance).map(|(partition, _)| partition).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use common::coordinator::MemberGroup;

    use super::*;

    fn member(instance: &str, topics: &[&str]) -> Member {
        let topics = topics.iter().map(|topic| Topic::new(topic).unwrap()).collect();
        let groups = BTreeMap::from([("g".to_owned(), MemberGroup { topics, config: String::new() })]);
        let (host, version, admin) = (String::new(), String::new(), String::new());
        Member { instance: instance.to_owned(), proto: assign::PROTO, boot: uuid::Uuid::nil(), host, pid: 1, version, admin, groups }
    }

    fn mine(members: &[Member], me: &Member) -> Vec<Partition> {
        let view = View { topics: HashMap::new(), members: members.to_vec(), paused: HashSet::new(), moved: Vec::new() };
        let info = TopicInfo { topic: Topic::new("t").unwrap(), id: None, partitions: 12 };
        view.mine(&GroupName::new("g").unwrap(), &info, me)
    }

    #[test]
    fn every_partition_has_exactly_one_member() {
        let members = ["a", "b", "c"].map(|instance| member(instance, &["t"]));
        let mut all: Vec<_> = members.iter().flat_map(|me| mine(&members, me)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..12).map(Partition).collect::<Vec<_>>());
    }

    #[test]
    fn a_member_that_does_not_list_the_topic_gets_none_of_it() {
        let members = [member("a", &["t"]), member("b", &["other"])];
        assert_eq!(mine(&members, &members[0]).len(), 12);
        assert_eq!(mine(&members, &members[1]), []);
    }

    #[test]
    fn who_is_not_in_the_fleet_owns_nothing() {
        assert_eq!(mine(&[], &member("a", &["t"])), []);
        assert_eq!(mine(&[member("b", &["t"])], &member("a", &["t"])), []);
    }
}

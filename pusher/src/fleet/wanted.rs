//! What is read afresh, and what follows from it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use common::coordinator::vacancy::{Holding, Look, Vacancies};
use common::coordinator::{Control, Coordinator, CoordinatorError, Member, Vacant};
use common::ids::{Epoch, GroupName, GroupPartition, Partition, Topic, TopicId};
use common::queue::TopicInfo;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use tokio::time::Instant;
use tracing::error;

use crate::cluster::Topics;
use crate::group::Group;

/// Questions to the coordinator that are open at one time.
const CONCURRENCY: usize = 64;

/// Without those that cannot be read.
pub(super) type Controls = HashMap<GroupName, Control>;

/// What is read of everything but the controls: all or nothing.
pub(super) type Rest = BoxFuture<'static, Result<View, CoordinatorError>>;

/// Everything a decision rests on, as of one moment.
pub(super) struct View {
    members: Vec<Member>,
    pub(super) controls: Controls,
    /// Owned partitions whose cursor was moved by somebody else, and under which epoch.
    pub(super) moved: Vec<(GroupPartition, Epoch)>,
    /// Of the topics that were looked at, what has no owner.
    vacant: HashMap<(GroupName, Topic), Vec<Vacant>>,
}

/// Instances, each with its [`Member::entered`].
pub(super) type Crew = Vec<(String, u64)>;

/// What is served, under which epoch.
pub(super) type Serving = (GroupPartition, Epoch);

/// Of what is read besides the controls.
pub(super) struct Question {
    /// The controls as last read.
    pub(super) known: Controls,
    /// Epochs that no look was at yet: looked at whatever has changed.
    pub(super) first_looked_at: Vec<Serving>,
    pub(super) looked_at: Vec<Serving>,
    /// With the number of their partitions: topics of which it is asked what nobody owns.
    pub(super) vacant: Vec<(GroupName, Topic, u32)>,
}

/// A partition that this process should keep.
pub(super) struct Wanted {
    pub(super) group: Arc<Group>,
    pub(super) topic_id: Option<TopicId>,
}

/// Reads the controls, which are heeded at once: whoever has read that a group is paused begins no attempt,
/// however long the rest takes, and whether or not it can be read.
pub(super) async fn look(coordinator: Arc<dyn Coordinator>, groups: Vec<GroupName>, question: Question) -> (Controls, Rest) {
    let read = stream::iter(groups).map(|group| control(&*coordinator, group)).buffer_unordered(CONCURRENCY);
    let controls: Controls = read.filter_map(std::future::ready).collect().await;
    let rest = View::read(coordinator, question, controls.clone());
    (controls, rest.boxed())
}

impl View {
    pub(super) fn crew(&self) -> Crew {
        self.members.iter().map(|member| (member.instance.clone(), member.entered)).collect()
    }

    /// All or nothing: half a view would let partitions go that are still ours.
    async fn read(coordinator: Arc<dyn Coordinator>, question: Question, controls: Controls) -> Result<Self, CoordinatorError> {
        let Question { known, first_looked_at, looked_at, vacant } = question;
        // A replay changes the control, too. What was written past it is found out by a whole look.
        let changed = |(at, _): &Serving| controls.get(&at.group) != known.get(&at.group);
        let suspects: Vec<_> = first_looked_at.into_iter().chain(looked_at.into_iter().filter(changed)).collect();
        let moved = if suspects.is_empty() { Vec::new() } else { coordinator.moved(&suspects).await? };
        let epochs: HashMap<_, _> = suspects.into_iter().collect();
        let moved = moved.into_iter().filter_map(|at| epochs.get(&at).map(|epoch| (at.clone(), *epoch))).collect();
        let members = coordinator.members().await?;
        // Alone, there is nobody to take anything in the stead of.
        let vacant = if members.len() > 1 { vacant } else { Vec::new() };
        let coordinator = &*coordinator;
        let looks = vacant.into_iter().map(|(group, topic, partitions)| async move {
            let vacant = coordinator.vacant(&group, &topic, partitions).await?;
            Ok::<_, CoordinatorError>(((group, topic), vacant))
        });
        let vacant = stream::iter(looks).buffer_unordered(CONCURRENCY).try_collect().await?;
        Ok(Self { members, controls, moved, vacant })
    }

    /// Of one group, among the topics that there are.
    pub(super) fn wanted(
        &self,
        group: &Arc<Group>,
        topics: &Topics,
        turns: &mut Turns<'_>,
        holding: impl Fn(&GroupPartition) -> Holding,
    ) -> BTreeMap<GroupPartition, Wanted> {
        let name = &group.config.group;
        let mut wanted = BTreeMap::new();
        for info in group.config.topics.iter().filter_map(|topic| topics.get(topic)) {
            for partition in self.mine(name, info, turns, &holding) {
                let at = GroupPartition { group: name.clone(), topic: info.topic.clone(), partition };
                wanted.insert(at, Wanted { group: group.clone(), topic_id: info.id });
            }
        }
        wanted
    }

    /// Among the members that serve this group and topic.
    fn mine(
        &self,
        group: &GroupName,
        info: &TopicInfo,
        turns: &mut Turns<'_>,
        holding: impl Fn(&GroupPartition) -> Holding,
    ) -> Vec<Partition> {
        let look = Look { members: &self.members, me: turns.instance, now: turns.now, patience: turns.patience };
        let vacant = self.vacant.get(&(group.clone(), info.topic.clone())).map(Vec::as_slice);
        turns.vacancies.mine(&look, (group, &info.topic), info.partitions, vacant, holding)
    }
}

/// Whose turn it is, as this process has seen it.
pub(super) struct Turns<'a> {
    pub(super) instance: &'a str,
    pub(super) vacancies: &'a mut Vacancies,
    pub(super) patience: std::time::Duration,
    pub(super) now: Instant,
}

async fn control(coordinator: &dyn Coordinator, group: GroupName) -> Option<(GroupName, Control)> {
    match coordinator.control(&group).await {
        Ok(control) => Some((group, control)),
        Err(error) => {
            error!(%group, %error, "whether the group is paused cannot be read; it goes on as it is, and takes nothing more");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use common::coordinator::{MemberGroup, assign};

    use super::*;

    fn member(instance: &str, topics: &[&str]) -> Member {
        let topics = topics.iter().map(|topic| Topic::new(topic).unwrap()).collect();
        let groups = BTreeMap::from([("g".to_owned(), MemberGroup { topics, config: String::new() })]);
        let (host, version, admin) = (String::new(), String::new(), String::new());
        Member {
            instance: instance.to_owned(),
            proto: assign::PROTO,
            boot: uuid::Uuid::nil(),
            host,
            pid: 1,
            version,
            admin,
            groups,
            entered: 0,
        }
    }

    fn mine(members: &[Member], me: &str) -> Vec<Partition> {
        let view = View { members: members.to_vec(), controls: HashMap::new(), moved: Vec::new(), vacant: HashMap::new() };
        let info = TopicInfo { topic: Topic::new("t").unwrap(), id: None, partitions: 12 };
        let (vacancies, patience) = (&mut Vacancies::default(), std::time::Duration::MAX);
        let mut turns = Turns { instance: me, vacancies, patience, now: Instant::now() };
        view.mine(&GroupName::new("g").unwrap(), &info, &mut turns, |_| Holding::Nothing)
    }

    #[test]
    fn every_partition_has_exactly_one_member() {
        let members = ["a", "b", "c"].map(|instance| member(instance, &["t"]));
        let mut all: Vec<_> = ["a", "b", "c"].iter().flat_map(|me| mine(&members, me)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..12).map(Partition).collect::<Vec<_>>());
    }

    #[test]
    fn a_member_that_does_not_list_the_topic_gets_none_of_it() {
        let members = [member("a", &["t"]), member("b", &["other"])];
        assert_eq!(mine(&members, "a").len(), 12);
        assert_eq!(mine(&members, "b"), []);
    }

    #[test]
    fn who_is_not_in_the_fleet_owns_nothing() {
        assert_eq!(mine(&[], "a"), []);
        assert_eq!(mine(&[member("b", &["t"])], "a"), []);
    }
}

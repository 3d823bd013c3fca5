//! What every backend of the coordinator seam must do. `coordinator_conformance!` makes a test of
//! each promise; the real servers run it from another crate, with the feature `conformance`.

#![allow(clippy::unwrap_used, reason = "these are tests, in a module that other crates can see")]

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::{Birth, Claim, Commit, Coordinator, DoneSet, Log, Member, MemberGroup, Progress, Replay, ReplayTarget};
use crate::ids::{Epoch, GroupName, GroupPartition, Offset, Partition, Topic, TopicId};

pub mod tests;

/// An empty store of a backend.
#[async_trait]
pub trait Harness: Send + Sync {
    /// A coordinator over the store, as of a new process. The one before has been dropped.
    async fn open(&self) -> Arc<dyn Coordinator>;

    /// Writes a cursor past the coordinator, as an operator or an old tool would. Nobody owns it.
    async fn set_cursor(&self, at: &GroupPartition, text: &str);
}

/// `coordinator_conformance!(fresh)`, where `async fn fresh() -> impl Harness` is in scope.
#[macro_export]
macro_rules! coordinator_conformance {
    ($fresh:ident) => {
        $crate::coordinator_conformance!(@ $fresh, begin: [
            birth_is_written_once, a_group_with_a_cursor_is_not_new, nothing_is_claimed_before_birth, a_new_group_begins_at_its_birth,
            a_crash_half_way_through_the_first_claims_loses_no_start,
            a_partition_beyond_the_birth_list_starts_at_its_first_offset, a_group_born_before_its_topic_misses_no_message,
            a_cursor_of_an_old_tool_is_taken_up, an_unreadable_cursor_stops_the_partition, a_topic_created_anew_is_found_out,
            what_retention_took_is_counted, a_cursor_past_the_end_goes_to_the_end,
        ]);
        $crate::coordinator_conformance!(@ $fresh, own: [
            a_held_partition_is_not_claimed_again, groups_do_not_affect_each_other, a_commit_moves_cursor_and_done_set_together,
            commits_are_answered_each_on_its_own, an_old_epoch_commits_nothing, a_release_keeps_the_done_set,
            an_old_epoch_releases_nothing, epochs_strictly_grow_also_over_restarts, a_crash_keeps_what_was_committed,
            members_are_those_who_joined, what_nobody_owns_is_known_and_a_claim_leaves_its_mark,
            who_withdraws_keeps_what_it_owns, leaving_gives_everything_up, the_owner_is_named, the_lease_of_a_member_holds,
        ]);
        $crate::coordinator_conformance!(@ $fresh, replay: [
            a_replay_moves_the_cursor_and_empties_the_done_set, a_replay_to_exactly_the_old_value_is_one,
            a_replay_is_done_once_for_an_id, sixteen_replays_are_remembered, no_late_commit_passes_a_replay,
            no_late_release_passes_a_replay, the_last_of_two_replays_wins, a_replay_stands_without_an_owner_and_over_a_restart,
            a_replay_begins_where_there_was_no_cursor, too_large_a_replay_moves_nothing, an_old_epoch_adopts_nothing,
            a_replay_of_a_topic_created_anew_since_is_found_out, attempts_go_with_the_partition_until_a_replay,
        ]);
        $crate::coordinator_conformance!(@ $fresh, control: [
            a_group_runs_unless_paused, a_pause_survives_a_restart, a_pause_keeps_the_replays, changes_are_hinted_at,
        ]);
    };
    (@ $fresh:ident, $part:ident: [$($promise:ident),* $(,)?]) => {
        mod $part {
            use super::$fresh;

            $(#[tokio::test]
            async fn $promise() {
                $crate::coordinator::conformance::tests::$part::$promise(&$fresh().await).await;
            })*
        }
    };
}

/// One group on one topic.
pub(crate) struct Scene {
    group: GroupName,
    topic: Topic,
}

impl Scene {
    pub(crate) fn new(group: &str, topic: &str) -> Self {
        Self { group: GroupName::new(group).unwrap(), topic: Topic::new(topic).unwrap() }
    }

    pub(crate) fn at(&self, partition: u32) -> GroupPartition {
        GroupPartition { group: self.group.clone(), topic: self.topic.clone(), partition: Partition(partition) }
    }

    fn commit(&self, partition: u32, epoch: Epoch, progress: Progress) -> Commit {
        Commit { at: self.at(partition), epoch, progress }
    }

    fn replay(&self, id: &str, targets: impl IntoIterator<Item = (u32, u64)>) -> Replay {
        let target = |(partition, to)| ReplayTarget {
            topic: self.topic.clone(),
            partition: Partition(partition),
            to: Offset(to),
            topic_id: Some(topic_id(1)),
        };
        Replay { group: self.group.clone(), id: id.into(), asked_at: 1_700_000_000_000, targets: targets.into_iter().map(target).collect() }
    }

    /// Born at 10 in each of three partitions.
    async fn born(&self, coordinator: &dyn Coordinator) {
        let birth = Birth { topic_id: Some(topic_id(1)), start: vec![Offset(10); 3] };
        coordinator.birth(&self.group, &self.topic, birth, &[log(0, 100); 3]).await.unwrap();
    }

    /// Of a partition whose log is 0..100.
    async fn claimed(&self, coordinator: &dyn Coordinator, partition: u32) -> Claim {
        coordinator.claim(&self.at(partition), log(0, 100)).await.unwrap()
    }

    async fn stands(&self, coordinator: &dyn Coordinator, partition: u32) -> Option<Progress> {
        coordinator.standing(&[self.at(partition)]).await.unwrap().remove(0).progress
    }
}

/// Opened and joined.
async fn member_of(harness: &dyn Harness) -> Arc<dyn Coordinator> {
    let coordinator = harness.open().await;
    coordinator.join(member("here")).await.unwrap();
    coordinator
}

pub(crate) fn member(instance: &str) -> Member {
    let served = MemberGroup { topics: vec![Topic::new("t").unwrap()], config: "c0ffee".into() };
    Member {
        instance: instance.into(),
        proto: super::assign::PROTO,
        boot: Uuid::new_v4(),
        host: "host".into(),
        pid: 1,
        version: "0.1.0".into(),
        admin: "127.0.0.1:9091".into(),
        groups: [("g".to_owned(), served)].into(),
        entered: 0,
    }
}

pub(crate) fn topic_id(number: u128) -> TopicId {
    TopicId(Uuid::from_u128(number))
}

pub(crate) fn log(first: u64, end: u64) -> Log {
    Log { topic_id: Some(topic_id(1)), first: Offset(first), end: Offset(end), past_end: None }
}

fn progress(cursor: u64, runs: impl IntoIterator<Item = Range<u64>>) -> Progress {
    Progress { cursor: Offset(cursor), done: DoneSet::from_runs(runs.into_iter().collect()).unwrap(), ..Progress::default() }
}

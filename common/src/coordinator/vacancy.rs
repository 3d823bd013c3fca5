//! Partitions that nobody owns although somebody is to: after a while the next in rank takes them, so
//! that a member that cannot claim starves nobody.
//!
//! Each member sees for itself whose turn has passed. That two see it at other times does no harm:
//! whoever claims first owns, and keeps the partition until the node by which the one who was passed
//! over is in the fleet is another one.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::{Member, assign};
use crate::ids::{GroupName, GroupPartition, Partition, Topic};

/// Beyond the session timeout, until it is the next one's turn.
pub const GRACE: Duration = Duration::from_secs(5);

/// A partition that had no owner when it was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vacant {
    pub partition: Partition,
    /// Another one: it was claimed in between.
    pub mark: u64,
}

/// What this process does about a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holding {
    Nothing,
    Claiming,
    Serving,
}

/// What a look found that every partition is judged by.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub members: &'a [Member],
    pub me: &'a str,
    pub now: Instant,
    /// The session timeout and [`GRACE`].
    pub patience: Duration,
}

/// Where turns have passed, or may.
#[derive(Default)]
pub struct Vacancies {
    cases: HashMap<GroupPartition, Case>,
    /// Something of these may have lost its owner since they were looked at.
    suspected: HashSet<(GroupName, Topic)>,
}

#[derive(Default)]
struct Case {
    vacant: Option<Since>,
    /// In the order of their turns.
    passed_over: Vec<Turn>,
}

struct Since {
    since: Instant,
    mark: u64,
    /// Whose turn it has been for so long.
    turn: Option<Turn>,
}

#[derive(PartialEq, Eq)]
struct Turn {
    instance: String,
    /// [`Member::entered`].
    entered: u64,
}

impl Vacancies {
    /// The partitions of a topic that are `me`'s. `vacant`: if that was looked at.
    pub fn mine(
        &mut self,
        look: &Look<'_>,
        (group, topic): (&GroupName, &Topic),
        partitions: u32,
        vacant: Option<&[Vacant]>,
        holding: impl Fn(&GroupPartition) -> Holding,
    ) -> Vec<Partition> {
        let assigned = assign::owners(look.members, group, topic, partitions);
        if vacant.is_some() {
            self.suspected.remove(&(group.clone(), topic.clone()));
        }
        let mut mine = Vec::new();
        for (partition, first) in (0..).map(Partition).zip(assigned) {
            let at = GroupPartition { group: group.clone(), topic: topic.clone(), partition };
            let known = vacant.map(|vacant| vacant.iter().find(|vacant| vacant.partition == partition));
            let mut case = self.cases.remove(&at).unwrap_or_default();
            let is_mine = case.is_mine(look, &at, first, known, &holding);
            if case.vacant.is_some() || !case.passed_over.is_empty() {
                self.cases.insert(at, case);
            }
            if is_mine {
                mine.push(partition);
            }
        }
        mine
    }

    /// When the next turn may have passed.
    pub fn due(&self, patience: Duration) -> Option<Instant> {
        self.cases.values().filter_map(|case| Some(case.vacant.as_ref()?.since + patience)).min()
    }

    /// To be looked at soon: the time of whoever's turn it is begins with that.
    pub fn suspect(&mut self, group: GroupName, topic: Topic) {
        self.suspected.insert((group, topic));
    }

    /// Whether there is anything to wait for, or to look at.
    pub fn concern(&self, group: &GroupName, topic: &Topic) -> bool {
        let suspected = self.suspected.contains(&(group.clone(), topic.clone()));
        suspected || self.cases.iter().any(|(at, case)| case.vacant.is_some() && at.group == *group && at.topic == *topic)
    }

    /// No turn passes before all of the patience is over again: who asks cannot claim itself.
    pub fn put_off(&mut self, group: &GroupName, now: Instant) {
        for (_, case) in self.cases.iter_mut().filter(|(at, _)| at.group == *group) {
            if let Some(vacant) = &mut case.vacant {
                vacant.since = now;
            }
        }
    }

    pub fn retain(&mut self, concerns: impl Fn(&GroupName) -> bool) {
        self.cases.retain(|at, _| concerns(&at.group));
        self.suspected.retain(|(group, _)| concerns(group));
    }
}

impl Case {
    /// `known`: outer `None`, nobody looked; inner: there is an owner.
    fn is_mine(
        &mut self,
        look: &Look<'_>,
        at: &GroupPartition,
        first: &str,
        known: Option<Option<&Vacant>>,
        holding: impl Fn(&GroupPartition) -> Holding,
    ) -> bool {
        self.passed_over.retain(|turn| look.members.iter().any(|member| turn.is_of(member)));
        if let Some(vacant) = known {
            self.see(look, at, first, vacant);
        }
        if !self.is_passed_over(first) {
            return first == look.me;
        }
        match (holding(at), known) {
            (Holding::Serving, _) | (Holding::Claiming, None) => true,
            (Holding::Nothing, None) | (_, Some(None)) => false,
            // Whoever had its turn goes on trying: the first that can has it.
            (_, Some(Some(_))) => self.is_passed_over(look.me) || self.turn(look, at, first) == Some(look.me),
        }
    }

    fn see(&mut self, look: &Look<'_>, at: &GroupPartition, first: &str, vacant: Option<&Vacant>) {
        let Some(Vacant { mark, .. }) = vacant.copied() else {
            self.vacant = None;
            return;
        };
        let turn = self.turn_of_member(look, at, first);
        if let Some(seen) = self.vacant.take_if(|seen| seen.mark == mark && seen.turn == turn) {
            if look.now.saturating_duration_since(seen.since) < look.patience {
                self.vacant = Some(seen);
                return;
            }
            self.pass(look, at, first, turn);
        }
        self.vacant = Some(Since { since: look.now, mark, turn: self.turn_of_member(look, at, first) });
    }

    /// Once all had their turn, it begins again.
    fn pass(&mut self, look: &Look<'_>, at: &GroupPartition, first: &str, turn: Option<Turn>) {
        self.passed_over.extend(turn);
        if self.turn(look, at, first).is_none() {
            self.passed_over.clear();
        }
    }

    fn turn_of_member(&self, look: &Look<'_>, at: &GroupPartition, first: &str) -> Option<Turn> {
        let turn = self.turn(look, at, first)?;
        let member = look.members.iter().find(|member| member.instance == turn)?;
        Some(Turn { instance: member.instance.clone(), entered: member.entered })
    }

    /// Whose it is: the first that was not passed over.
    fn turn<'a>(&self, look: &Look<'a>, at: &GroupPartition, first: &'a str) -> Option<&'a str> {
        let ranked = assign::ranked(look.members, at);
        std::iter::once(first).chain(ranked).find(|instance| !self.is_passed_over(instance))
    }

    fn is_passed_over(&self, instance: &str) -> bool {
        self.passed_over.iter().any(|turn| turn.instance == instance)
    }
}

impl Turn {
    fn is_of(&self, member: &Member) -> bool {
        self.instance == member.instance && self.entered == member.entered
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{Scene, member};
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);
    const SECOND: Duration = Duration::from_secs(1);

    /// One partition, and what a member sees of it.
    struct Watcher {
        members: Vec<Member>,
        vacancies: Vacancies,
        began: Instant,
    }

    impl Watcher {
        fn of(instances: &[&str]) -> Self {
            let members = instances.iter().map(|instance| Member { entered: 1, ..member(instance) }).collect();
            Self { members, vacancies: Vacancies::default(), began: Instant::now() }
        }

        fn first(&self) -> String {
            let at = Scene::new("g", "t").at(0);
            assign::owners(&self.members, &at.group, &at.topic, 1)[0].to_owned()
        }

        fn second(&self) -> String {
            let ranked = assign::ranked(&self.members, &Scene::new("g", "t").at(0));
            ranked.into_iter().find(|instance| *instance != self.first()).unwrap().to_owned()
        }

        /// Whether `me` is to have it, as of a look that saw this mark if nobody owned it.
        fn look(&mut self, me: &str, seconds: u32, vacant: Option<u64>, holding: Holding) -> bool {
            let look = Look { members: &self.members, me, now: self.began + SECOND * seconds, patience: PATIENCE };
            let at = Scene::new("g", "t").at(0);
            let vacant: Vec<_> = vacant.map(|mark| Vacant { partition: Partition(0), mark }).into_iter().collect();
            !self.vacancies.mine(&look, (&at.group, &at.topic), 1, Some(&vacant), |_| holding).is_empty()
        }
    }

    #[test]
    fn the_next_in_rank_waits_until_the_firsts_turn_has_passed() {
        let mut watcher = Watcher::of(&["a", "b", "c"]);
        let (first, second) = (watcher.first(), watcher.second());
        assert!(watcher.look(&first, 0, Some(7), Holding::Claiming));
        assert!(!watcher.look(&second, 19, Some(7), Holding::Nothing));
        assert_eq!(watcher.vacancies.due(PATIENCE), Some(watcher.began + PATIENCE));
        assert!(watcher.look(&second, 20, Some(7), Holding::Nothing));
        assert!(watcher.look(&first, 21, Some(7), Holding::Claiming), "who had its turn goes on trying");
        assert!(!watcher.look(&first, 22, None, Holding::Claiming), "until somebody has it");
    }

    #[test]
    fn a_claim_in_between_begins_the_wait_anew() {
        let mut watcher = Watcher::of(&["a", "b"]);
        let second = watcher.second();
        assert!(!watcher.look(&second, 0, Some(7), Holding::Nothing));
        assert!(!watcher.look(&second, 20, Some(8), Holding::Nothing), "it was claimed, and given up again");
        assert!(!watcher.look(&second, 39, Some(8), Holding::Nothing));
        assert!(watcher.look(&second, 40, Some(8), Holding::Nothing));
    }

    #[test]
    fn who_has_just_come_to_the_fleet_has_all_of_its_turn() {
        let mut watcher = Watcher::of(&["a", "b"]);
        let (first, second) = (watcher.first(), watcher.second());
        watcher.look(&second, 0, Some(7), Holding::Nothing);
        watcher.members.iter_mut().find(|member| member.instance == first).unwrap().entered = 2;
        assert!(!watcher.look(&second, 30, Some(7), Holding::Nothing), "it was away, and so was the first");
        assert!(!watcher.look(&second, 49, Some(7), Holding::Nothing));
        assert!(watcher.look(&second, 50, Some(7), Holding::Nothing));
    }

    #[test]
    fn who_took_it_keeps_it_until_the_first_is_in_the_fleet_anew() {
        let mut watcher = Watcher::of(&["a", "b"]);
        let (first, second) = (watcher.first(), watcher.second());
        watcher.look(&second, 0, Some(7), Holding::Nothing);
        assert!(watcher.look(&second, 20, Some(7), Holding::Nothing));
        assert!(watcher.look(&second, 500, None, Holding::Serving));
        watcher.members.iter_mut().find(|member| member.instance == first).unwrap().entered = 2;
        assert!(!watcher.look(&second, 501, None, Holding::Serving));
    }

    #[test]
    fn one_turn_after_the_other_passes_and_then_they_begin_again() {
        let mut watcher = Watcher::of(&["a", "b", "c"]);
        let (first, second) = (watcher.first(), watcher.second());
        let third = ["a", "b", "c"].into_iter().find(|instance| *instance != first && *instance != second).unwrap();
        watcher.look(third, 0, Some(7), Holding::Nothing);
        assert!(!watcher.look(third, 20, Some(7), Holding::Nothing));
        assert!(watcher.look(third, 40, Some(7), Holding::Nothing));
        assert!(!watcher.look(third, 60, Some(7), Holding::Claiming), "it is the first one's turn again");
    }

    #[test]
    fn who_cannot_claim_itself_waits_on() {
        let mut watcher = Watcher::of(&["a", "b"]);
        let second = watcher.second();
        watcher.look(&second, 0, Some(7), Holding::Nothing);
        watcher.vacancies.put_off(&GroupName::new("g").unwrap(), watcher.began + SECOND * 19);
        assert!(!watcher.look(&second, 38, Some(7), Holding::Nothing));
        assert!(watcher.look(&second, 39, Some(7), Holding::Nothing));
    }

    #[test]
    fn nothing_is_remembered_of_what_is_as_it_should_be() {
        let mut watcher = Watcher::of(&["a", "b"]);
        let second = watcher.second();
        watcher.look(&second, 0, Some(7), Holding::Nothing);
        let at = Scene::new("g", "t").at(0);
        assert!(watcher.vacancies.concern(&at.group, &at.topic));
        watcher.look(&second, 1, None, Holding::Nothing);
        assert!(watcher.vacancies.cases.is_empty() && !watcher.vacancies.concern(&at.group, &at.topic));
        watcher.look(&second, 2, Some(7), Holding::Nothing);
        watcher.vacancies.retain(|_| false);
        assert!(watcher.vacancies.cases.is_empty());
    }

    #[test]
    fn what_was_let_go_is_looked_at_until_that_was_done() {
        let mut watcher = Watcher::of(&["a", "b"]);
        let (second, at) = (watcher.second(), Scene::new("g", "t").at(0));
        watcher.vacancies.suspect(at.group.clone(), at.topic.clone());
        assert!(watcher.vacancies.concern(&at.group, &at.topic));
        watcher.look(&second, 0, None, Holding::Nothing);
        assert!(!watcher.vacancies.concern(&at.group, &at.topic), "it has an owner");
    }
}

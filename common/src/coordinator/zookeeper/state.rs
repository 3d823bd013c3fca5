//! What this process owns under one session: decided here, without I/O.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::super::lease::{Proofs, Share, boot_time};
use super::super::{ClaimError, CommitError, CoordinatorError, Member};
use super::outcome::Owned;
use super::paths;
use crate::ids::{Epoch, GroupPartition};

/// The ephemeral paths of one session. Its end writes all of them in one transaction, and one of
/// more than 1 MiB can take an ensemble down for good.
pub(super) const MAX_PATH_BYTES: usize = 512 * 1024;

/// What a session is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// It says that this process is in the fleet, and owns partitions.
    First,
    /// It owns the partitions for which those before it have no room.
    Further,
}

/// Why a claim does not begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// Not under this session; under another one it may.
    NoRoom,
    Because(ClaimError),
}

impl<E: Into<ClaimError>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Because(error.into())
    }
}

pub(super) struct State {
    role: Role,
    pub(super) session: Option<i64>,
    /// As the servers granted it.
    timeout: Duration,
    pub(super) member: Option<Member>,
    /// The session under which the member is in the fleet, or was before it withdrew.
    joined: Option<i64>,
    /// It takes nothing more, and keeps what it owns until that is released.
    withdrawn: bool,
    /// Nodes of the fleet that could not be read, as was said.
    unreadable: HashSet<String>,
    owned: HashMap<GroupPartition, Owned>,
    /// With a write under way: one at a time for each partition.
    busy: HashSet<GroupPartition>,
    /// Of the path before each node's.
    chroot_bytes: usize,
    /// Of owner nodes, those that are being claimed included.
    owner_bytes: usize,
    /// Of what says that this process is in the fleet.
    member_bytes: usize,
    /// Of `owner_bytes` and `member_bytes` together.
    max_path_bytes: usize,
    lease: Share,
    proofs: Proofs,
    /// Send time of the last acknowledged write.
    pub(super) last_write: Duration,
    /// When something was last claimed or given up.
    last_use: Duration,
}

impl State {
    pub(super) fn new(lease: Share, chroot_bytes: usize, max_path_bytes: usize) -> Self {
        Self {
            role: Role::First,
            chroot_bytes,
            max_path_bytes,
            owner_bytes: 0,
            member_bytes: 0,
            session: None,
            timeout: Duration::ZERO,
            member: None,
            joined: None,
            withdrawn: false,
            unreadable: HashSet::new(),
            owned: HashMap::new(),
            busy: HashSet::new(),
            lease,
            proofs: Proofs::default(),
            last_write: Duration::ZERO,
            last_use: boot_time(),
        }
    }

    /// Of one more session of the same member.
    pub(super) fn further(member: Member, lease: Share, chroot_bytes: usize, max_path_bytes: usize) -> Self {
        Self { role: Role::Further, member: Some(member), ..Self::new(lease, chroot_bytes, max_path_bytes) }
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// A new one, or the same again; the servers were asked for it no earlier than `asked`.
    pub(super) fn session_is(&mut self, session: i64, timeout: Duration, asked: Duration) {
        if self.session == Some(session) && self.timeout == timeout {
            self.proofs.taken_up(asked);
        } else {
            self.proofs = Proofs::of(timeout, asked);
        }
        self.session = Some(session);
        self.timeout = timeout;
    }

    /// The servers refused it: nothing is owned any more.
    pub(super) fn session_over(&mut self) -> usize {
        self.session = None;
        self.joined = None;
        self.lease.end();
        self.busy.clear();
        self.owner_bytes = 0;
        std::mem::take(&mut self.owned).len()
    }

    /// Every transaction that the servers acknowledged extends the lease of a member. One that has
    /// ended begins again once it lasts until the next write can extend it: attempts that begin in
    /// between would be cut again.
    pub(super) fn acknowledged(&mut self, session: i64, sent: Duration) {
        if self.session != Some(session) {
            return;
        }
        self.last_write = self.last_write.max(sent);
        let until = self.proofs.acknowledged(sent, boot_time());
        if self.joined != Some(session) {
            return;
        }
        if self.lease.lapse().is_some() || until >= boot_time() + self.proofs.settle_within(self.max_silence()) {
            self.lease.extend(until);
        }
    }

    /// A further session that was withdrawn meanwhile stays so.
    pub(super) fn joined(&mut self, session: i64, sent: Duration) {
        if self.session == Some(session) && (self.role == Role::First || self.to_join_again().is_some()) {
            self.joined = Some(session);
            self.withdrawn = false;
            self.last_use = boot_time();
            self.acknowledged(session, sent);
            self.lease.enter();
        }
    }

    /// Not in the fleet any more; the lease goes on, and so does what is owned.
    pub(super) fn withdraw(&mut self) {
        self.withdrawn = true;
    }

    /// `true`: nothing has been owned for so long, or nothing is to be any more, and nothing will be.
    pub(super) fn retire(&mut self, idle_for: Duration) -> bool {
        let idle = self.withdrawn || self.last_use + idle_for <= boot_time();
        if self.role == Role::First || !idle || !self.owned.is_empty() || !self.busy.is_empty() {
            return false;
        }
        self.withdrawn = true;
        self.joined = None;
        self.lease.withdraw();
        true
    }

    pub(super) fn left(&mut self) {
        self.member = None;
        self.joined = None;
        self.withdrawn = false;
        self.owned.clear();
        self.owner_bytes = 0;
        self.lease.end();
    }

    /// Who is to be in the fleet under a new session.
    pub(super) fn to_join_again(&self) -> Option<Member> {
        self.member.clone().filter(|_| !self.withdrawn)
    }

    /// What exists as long as this process is well.
    pub(super) fn proof_path(&self) -> String {
        match (&self.member, self.role) {
            (Some(member), Role::First) if !self.withdrawn => paths::member(&member.instance),
            (Some(_) | None, Role::First | Role::Further) => paths::FLEET.to_owned(),
        }
    }

    /// What this session may have made besides owner nodes.
    pub(super) fn member_nodes(&self) -> Vec<String> {
        let Some(member) = self.member.as_ref().filter(|_| self.role == Role::First) else { return Vec::new() };
        let ids = member.groups.keys().map(|group| paths::id(group, &member.instance));
        std::iter::once(paths::member(&member.instance)).chain(ids).collect()
    }

    /// Those of `unreadable` that were not named before.
    pub(super) fn newly_unreadable(&mut self, unreadable: HashSet<String>) -> Vec<String> {
        let new = unreadable.difference(&self.unreadable).cloned().collect();
        self.unreadable = unreadable;
        new
    }

    /// When a write must be sent only to show that the session lives, if nothing else is written.
    pub(super) fn next_proof(&self) -> Option<Duration> {
        self.joined.map(|_| self.last_write + self.max_silence())
    }

    /// Two of these are what an outage finds of a lease used up, at most: one since the last write,
    /// one since the last that was in time to be settled.
    fn max_silence(&self) -> Duration {
        const MAX_SILENCE: Duration = Duration::from_secs(1);
        (self.timeout / 12).min(MAX_SILENCE)
    }

    /// How long until the lease is to be looked at again.
    pub(super) fn lapse(&self) -> Option<Duration> {
        self.lease.lapse()
    }

    /// The session and the instance under which a partition may be claimed.
    pub(super) fn begin_claim(&mut self, at: &GroupPartition) -> Result<(i64, String), Refused> {
        let Some(member) = &self.member else {
            return Err(CoordinatorError::Refused(format!("{at} cannot be claimed before this process has joined the fleet")).into());
        };
        let instance = member.instance.clone();
        if self.owned.contains_key(at) {
            return Err(ClaimError::Held(instance).into());
        }
        match self.role {
            Role::First if self.withdrawn => {
                let refused = format!("{at} cannot be claimed by a process that has withdrawn from the fleet");
                return Err(CoordinatorError::Refused(refused).into());
            }
            Role::Further if self.withdrawn => return Err(Refused::NoRoom),
            Role::First | Role::Further => {}
        }
        let session = self.joined.ok_or_else(|| CoordinatorError::Unavailable("this process is not in the fleet yet".into()))?;
        let bytes = self.path_bytes(&paths::owner(at));
        let is_full = self.member_bytes + self.owner_bytes + bytes > self.max_path_bytes;
        if is_full && !self.busy.contains(at) {
            return Err(Refused::NoRoom);
        }
        self.occupy(at)?;
        self.owner_bytes += bytes;
        Ok((session, instance))
    }

    fn path_bytes(&self, path: &str) -> usize {
        self.chroot_bytes + path.len()
    }

    fn given_up(&mut self, at: &GroupPartition) {
        self.owner_bytes = self.owner_bytes.saturating_sub(self.path_bytes(&paths::owner(at)));
    }

    /// Before it joins: what it serves must leave room for what it is to own.
    pub(super) fn begin_join(&mut self, member: &Member) -> Result<Option<Member>, CoordinatorError> {
        let ids: usize = member.groups.keys().map(|group| self.path_bytes(&paths::id(group, &member.instance))).sum();
        let bytes = self.path_bytes(&paths::member(&member.instance)) + ids;
        if bytes > self.max_path_bytes / 2 {
            let groups = member.groups.len();
            return Err(CoordinatorError::Refused(format!(
                "the names of the {groups} groups that this process serves take {bytes} bytes of paths in ZooKeeper, and at most {} leave room for \
                their partitions; let others serve some of them",
                self.max_path_bytes / 2
            )));
        }
        self.member_bytes = bytes;
        Ok(self.member.clone())
    }

    /// What is adopted, and the instance that owns it.
    pub(super) fn begin_adopt(&mut self, at: &GroupPartition, epoch: Epoch) -> Result<(i64, Owned), ClaimError> {
        let owned = self.owned.get(at).filter(|owned| owned.epoch == epoch).cloned().ok_or(ClaimError::EpochOver)?;
        let session = self.session.ok_or(ClaimError::EpochOver)?;
        self.occupy(at)?;
        Ok((session, owned))
    }

    pub(super) fn begin_store(&mut self, at: &GroupPartition, epoch: Epoch) -> Result<(i64, Owned), CommitError> {
        let owned = self.owned.get(at).filter(|owned| owned.epoch == epoch).cloned().ok_or(CommitError::EpochOver)?;
        let session = self.session.ok_or(CommitError::EpochOver)?;
        self.occupy(at)?;
        Ok((session, owned))
    }

    fn occupy(&mut self, at: &GroupPartition) -> Result<(), CoordinatorError> {
        if self.busy.insert(at.clone()) {
            self.last_use = boot_time();
            return Ok(());
        }
        Err(CoordinatorError::Unavailable(format!("the write before this one to {at} is not answered yet")))
    }

    /// The end of what was begun. `None`: it is not owned (any more). What ends after its session is passed over.
    pub(super) fn end(&mut self, session: i64, at: &GroupPartition, owned: Option<Owned>) {
        if self.session != Some(session) {
            return;
        }
        self.busy.remove(at);
        match owned {
            Some(owned) if self.member.is_some() => drop(self.owned.insert(at.clone(), owned)),
            _ => {
                self.owned.remove(at);
                self.given_up(at);
            }
        }
    }

    /// What was begun has changed nothing.
    pub(super) fn end_unchanged(&mut self, session: i64, at: &GroupPartition) {
        if self.session == Some(session) && self.busy.remove(at) && !self.owned.contains_key(at) {
            self.given_up(at);
        }
    }

    pub(super) fn owns(&self, at: &GroupPartition, epoch: Epoch) -> bool {
        self.owned.get(at).is_some_and(|owned| owned.epoch == epoch)
    }

    pub(super) fn owned(&self) -> Vec<GroupPartition> {
        let mut owned: Vec<_> = self.owned.keys().cloned().collect();
        owned.sort_unstable();
        owned
    }

    /// Of each: what should stand, if it is at rest under this epoch. Outer `None`: it is not owned
    /// at all; inner: nothing can be said now.
    pub(super) fn at_rest(&self, at: &GroupPartition, epoch: Epoch) -> Option<Option<Owned>> {
        match self.owned.get(at) {
            _ if self.busy.contains(at) => Some(None),
            Some(owned) => Some((owned.epoch == epoch).then(|| owned.clone())),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::super::conformance::{Scene, member};
    use super::super::super::done::node::Writer;
    use super::super::super::lease::{Joint, Lease, simulated};
    use super::super::outcome::Base;
    use super::*;
    use crate::ids::Offset;

    const T: Duration = Duration::from_secs(6);

    fn owned(epoch: u64) -> Owned {
        let base = Base { cursor: Some(0), done: Some(0), mzxid: 1 };
        let writer = Writer { boot: Uuid::nil(), number: 1 };
        Owned { epoch: Epoch(epoch), base, writer, cursor: Offset(0), topic_id: None, replayed_at: None }
    }

    fn joined() -> (State, Lease) {
        let (_, share, lease) = Joint::new();
        let mut state = State::new(share, 0, MAX_PATH_BYTES);
        state.session_is(1, T, boot_time());
        state.member = Some(member("me"));
        state.joined(1, boot_time());
        (state, lease)
    }

    #[test]
    fn a_lease_lasts_two_thirds_of_the_session_from_the_last_acknowledged_write() {
        let (mut state, lease) = joined();
        assert!(lease.holds());
        let left = state.lapse().unwrap();
        assert!((T / 2..=T * 2 / 3).contains(&left), "{left:?}");
        assert_eq!(state.next_proof(), Some(state.last_write + T / 12));
        state.session_over();
        assert!(!lease.holds());
        state.session_is(2, T, boot_time());
        state.acknowledged(2, boot_time());
        assert!(!lease.holds(), "not before it is in the fleet again");
        state.acknowledged(1, boot_time());
        assert!(!lease.holds(), "and not by what the old session did");
    }

    #[test]
    fn who_waited_long_to_join_works_from_then_on() {
        for proves in [false, true] {
            let (_, share, lease) = Joint::new();
            let mut state = State::new(share, 0, MAX_PATH_BYTES);
            let asked = boot_time();
            state.session_is(1, T, asked);
            for twelfth in 1..13 {
                simulated::set(asked + T * twelfth / 12);
                if proves {
                    state.acknowledged(1, boot_time());
                }
            }
            assert!(!lease.holds(), "not before it is in the fleet");
            state.joined(1, boot_time());
            assert_eq!(lease.holds(), proves, "with proofs while it waited: {proves}");
        }
    }

    #[test]
    fn a_partition_has_one_write_under_way() {
        let (mut state, _lease) = joined();
        let at = Scene::new("g", "t").at(0);
        state.begin_claim(&at).unwrap();
        assert!(matches!(state.begin_claim(&at), Err(Refused::Because(ClaimError::Coordinator(_)))));
        state.end(1, &at, Some(owned(5)));
        assert_eq!(state.begin_claim(&at), Err(ClaimError::Held("me".into()).into()));
        state.begin_store(&at, Epoch(5)).unwrap();
        assert!(matches!(state.begin_store(&at, Epoch(5)), Err(CommitError::Coordinator(_))));
        assert_eq!(state.at_rest(&at, Epoch(5)), Some(None));
        state.end_unchanged(1, &at);
        assert_eq!(state.at_rest(&at, Epoch(5)), Some(Some(owned(5))));
    }

    #[test]
    fn what_one_session_owns_is_bounded_by_the_bytes_of_its_paths() {
        let (mut state, _lease) = joined();
        let scene = Scene::new(&"g".repeat(255), &"t".repeat(249));
        let each = paths::owner(&scene.at(1000)).len();
        let fits = MAX_PATH_BYTES / each;
        for number in 0..u32::try_from(fits).unwrap() {
            state.begin_claim(&scene.at(1000 + number)).unwrap();
            state.end(1, &scene.at(1000 + number), Some(owned(5)));
        }
        assert_eq!(state.begin_claim(&scene.at(9999)), Err(Refused::NoRoom));
        assert_eq!(state.begin_claim(&scene.at(1000)), Err(ClaimError::Held("me".into()).into()), "which is not sent elsewhere");
        state.begin_store(&scene.at(1000), Epoch(5)).unwrap();
        state.end_unchanged(1, &scene.at(1000));
        assert_eq!(state.begin_claim(&scene.at(9999)), Err(Refused::NoRoom), "still owned");
        state.begin_store(&scene.at(1000), Epoch(5)).unwrap();
        state.end(1, &scene.at(1000), None);
        for _ in 0..2 {
            state.begin_claim(&scene.at(9999)).unwrap();
            state.end_unchanged(1, &scene.at(9999));
        }
    }

    #[test]
    fn what_ends_after_its_session_owns_nothing() {
        let (mut state, _lease) = joined();
        let at = Scene::new("g", "t").at(0);
        state.begin_claim(&at).unwrap();
        state.session_over();
        state.session_is(2, T, boot_time());
        state.end(1, &at, Some(owned(5)));
        assert!(!state.owns(&at, Epoch(5)));
        assert_eq!(state.begin_store(&at, Epoch(5)), Err(CommitError::EpochOver));
        assert_eq!(state.at_rest(&at, Epoch(5)), None);
    }

    #[test]
    fn who_has_withdrawn_keeps_what_it_owns_and_takes_nothing_more() {
        let (mut state, lease) = joined();
        let scene = Scene::new("g", "t");
        state.begin_claim(&scene.at(0)).unwrap();
        state.end(1, &scene.at(0), Some(owned(5)));
        state.withdraw();
        assert!(lease.holds() && state.owns(&scene.at(0), Epoch(5)) && state.to_join_again().is_none());
        assert_eq!(state.proof_path(), "/mqgate/fleet");
        assert!(matches!(state.begin_claim(&scene.at(1)), Err(Refused::Because(ClaimError::Coordinator(CoordinatorError::Refused(_))))));
        state.begin_store(&scene.at(0), Epoch(5)).unwrap();
        state.joined(1, boot_time());
        assert_eq!(state.proof_path(), "/mqgate/fleet/me");
        state.begin_claim(&scene.at(1)).unwrap();
    }

    fn further(joint: &Joint) -> State {
        let mut state = State::further(member("me"), joint.share(), 0, MAX_PATH_BYTES);
        state.session_is(7, T, boot_time());
        state.joined(7, boot_time());
        state
    }

    #[test]
    fn a_further_session_holds_owner_nodes_only_and_is_given_up_once_it_owns_nothing() {
        let (joint, ..) = Joint::new();
        let (mut state, at) = (further(&joint), Scene::new("g", "t").at(0));
        assert!(state.member_nodes().is_empty() && state.proof_path() == "/mqgate/fleet");
        assert!(!state.retire(T), "it was opened just now");
        assert_eq!(state.begin_claim(&at), Ok((7, "me".into())));
        assert!(!state.retire(Duration::ZERO));
        state.end(7, &at, Some(owned(5)));
        assert!(!state.retire(Duration::ZERO));
        state.begin_store(&at, Epoch(5)).unwrap();
        state.end(7, &at, None);
        assert!(!state.retire(T) && state.retire(Duration::ZERO));
        assert_eq!(state.begin_claim(&at), Err(Refused::NoRoom), "nobody claims under a session that is being closed");
        state.joined(7, boot_time());
        assert_eq!((state.next_proof(), state.begin_claim(&at)), (None, Err(Refused::NoRoom)));
        let (mut first, _lease) = joined();
        assert!(!first.retire(Duration::ZERO), "it is in the fleet by it");
    }

    #[test]
    fn a_further_session_takes_nothing_more_once_the_process_withdraws() {
        let (joint, ..) = Joint::new();
        let (mut state, scene) = (further(&joint), Scene::new("g", "t"));
        state.begin_claim(&scene.at(0)).unwrap();
        state.end(7, &scene.at(0), Some(owned(5)));
        state.withdraw();
        assert_eq!(state.begin_claim(&scene.at(1)), Err(Refused::NoRoom));
        assert!(!state.retire(T) && state.owns(&scene.at(0), Epoch(5)));
        state.begin_store(&scene.at(0), Epoch(5)).unwrap();
        state.end(7, &scene.at(0), None);
        assert!(state.retire(T), "at once");
    }

    #[test]
    fn who_has_left_takes_nothing_that_was_under_way() {
        let (mut state, lease) = joined();
        let at = Scene::new("g", "t").at(0);
        state.begin_claim(&at).unwrap();
        state.left();
        state.end(1, &at, Some(owned(5)));
        assert!(state.owned().is_empty() && !lease.holds());
        assert!(matches!(state.begin_claim(&at), Err(Refused::Because(ClaimError::Coordinator(CoordinatorError::Refused(_))))));
    }
}

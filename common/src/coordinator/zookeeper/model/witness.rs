//! The coordinator as a program sees it: what is read and answered through it is noted, and rules
//! that are broken above the wire are broken here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::super::ZooKeeperCoordinator;
use super::process::Host;
use super::wire::Broken;
use super::world::{SESSION, Shared};
use crate::coordinator::{
    Birth, Claim, ClaimError, Commit, CommitError, Control, Coordinator, CoordinatorError, Lease, LeaseHolder, Log, Member, Replay,
    Replayed, Standing, Vacant,
};
use crate::ids::{Epoch, GroupName, GroupPartition, Topic};

pub(super) struct Witness {
    honest: ZooKeeperCoordinator,
    world: Shared,
    peer: usize,
    broken: Option<Broken>,
    /// Told to a program whose lease is not to be the coordinator's.
    lie: Option<Lie>,
    claims: AtomicU64,
}

struct Lie {
    holder: LeaseHolder,
    lease: Lease,
    sessions: AtomicU64,
}

impl Witness {
    pub(super) fn new(honest: ZooKeeperCoordinator, host: &Host, broken: Option<Broken>) -> Self {
        let lie = matches!(broken, Some(Broken::LeaseByExpired | Broken::LeaseUnsettled)).then(|| {
            let (holder, lease) = Lease::ending();
            Lie { holder, lease, sessions: AtomicU64::new(0) }
        });
        Self { honest, world: host.world.clone(), peer: host.peer, broken, lie, claims: AtomicU64::new(0) }
    }

    /// Before the program goes on.
    pub(super) fn refresh(&self) {
        let Some(Lie { holder, sessions, .. }) = &self.lie else { return };
        let world = self.world.lock();
        match self.broken {
            Some(Broken::LeaseByExpired) if world.client_thinks_expired(self.peer) => holder.lose(),
            Some(Broken::LeaseByExpired) => holder.grant(),
            _ => {
                let over = self.honest.lease().losses().sessions;
                (sessions.swap(over, Ordering::Relaxed)..over).for_each(|_| holder.end());
                holder.extend(world.peers[self.peer].last_write + SESSION * 2 / 3);
                holder.lapse();
            }
        }
    }
}

#[async_trait]
impl Coordinator for Witness {
    async fn join(&self, member: Member) -> Result<(), CoordinatorError> {
        self.honest.join(member).await
    }

    async fn withdraw(&self) -> Result<(), CoordinatorError> {
        self.honest.withdraw().await
    }

    async fn leave(&self) -> Result<(), CoordinatorError> {
        self.honest.leave().await
    }

    async fn members(&self) -> Result<Vec<Member>, CoordinatorError> {
        let mut members = self.honest.members().await?;
        if self.broken == Some(Broken::NextForgets) {
            let claims = self.claims.load(Ordering::Relaxed);
            members.iter_mut().for_each(|member| member.entered += claims);
        }
        Ok(members)
    }

    async fn birth(&self, group: &GroupName, topic: &Topic, birth: Birth, log: &[Log]) -> Result<Birth, CoordinatorError> {
        self.honest.birth(group, topic, birth, log).await
    }

    async fn claim(&self, at: &GroupPartition, log: Log) -> Result<Claim, ClaimError> {
        let claimed = self.honest.claim(at, log).await;
        self.claims.fetch_add(u64::from(claimed.is_ok()), Ordering::Relaxed);
        claimed
    }

    async fn adopt(&self, at: &GroupPartition, epoch: Epoch, log: Log) -> Result<Claim, ClaimError> {
        self.honest.adopt(at, epoch, log).await
    }

    async fn commit(&self, commits: &[Commit]) -> Vec<Result<(), CommitError>> {
        self.honest.commit(commits).await
    }

    async fn release(&self, last: &Commit) -> Result<(), CommitError> {
        self.honest.release(last).await
    }

    /// From here on the program knows.
    async fn control(&self, group: &GroupName) -> Result<Control, CoordinatorError> {
        let mut control = self.honest.control(group).await?;
        self.world.lock().truth.has_read(self.peer, control.paused);
        control.paused &= self.broken != Some(Broken::PauseIgnored);
        Ok(control)
    }

    async fn set_paused(&self, group: &GroupName, paused: bool) -> Result<(), CoordinatorError> {
        self.honest.set_paused(group, paused).await
    }

    async fn replay(&self, replay: &Replay) -> Result<Replayed, CoordinatorError> {
        let replayed = self.honest.replay(replay).await?;
        self.world.lock().truth.replay_answered(&replay.id);
        Ok(replayed)
    }

    async fn moved(&self, owned: &[(GroupPartition, Epoch)]) -> Result<Vec<GroupPartition>, CoordinatorError> {
        self.honest.moved(owned).await
    }

    async fn vacant(&self, group: &GroupName, topic: &Topic, partitions: u32) -> Result<Vec<Vacant>, CoordinatorError> {
        self.honest.vacant(group, topic, partitions).await
    }

    fn patience(&self) -> Option<Duration> {
        match self.broken {
            Some(Broken::NextTooEarly) => Some(Duration::ZERO),
            Some(Broken::NextNever) => Some(Duration::from_hours(1)),
            _ => self.honest.patience(),
        }
    }

    async fn standing(&self, at: &[GroupPartition]) -> Result<Vec<Standing>, CoordinatorError> {
        self.honest.standing(at).await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.honest.hints()
    }

    fn lease(&self) -> Lease {
        self.lie.as_ref().map_or_else(|| self.honest.lease(), |lie| lie.lease.clone())
    }

    fn missing(&self) -> Vec<String> {
        self.honest.missing()
    }
}

//! Being in the fleet with the groups that are prepared, and again whenever these are others.

use std::sync::Arc;
use std::time::Duration;

use common::coordinator::{Coordinator, CoordinatorError, Member};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::charges::Charges;
use crate::backoff::Backoff;
use crate::member::Me;
use crate::prepare::{Faults, StartError};

/// The longest pause between tries.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// So long the other groups are waited for before some of them enter alone: each change moves partitions.
const SETTLE: Duration = Duration::from_secs(1);

type Joined = (Member, Result<(), CoordinatorError>);

pub(super) struct Membership {
    coordinator: Arc<dyn Coordinator>,
    me: Me,
    faults: Faults,
    /// As the fleet knows this process, and as of which [`Charges::revision`].
    member: Option<Member>,
    said: Option<u64>,
    joining: Option<BoxFuture<'static, Joined>>,
    /// Until when those that are not prepared are waited for, once there is something to say.
    settled: Option<Instant>,
    /// After a try that failed.
    retry: Option<Instant>,
    due: Option<Instant>,
    backoff: Backoff,
}

impl Membership {
    pub(super) fn new(coordinator: Arc<dyn Coordinator>, me: Me, faults: Faults) -> Self {
        let backoff = Backoff::new(MAX_PAUSE);
        Self { coordinator, me, faults, member: None, said: None, joining: None, settled: None, retry: None, due: None, backoff }
    }

    pub(super) fn instance(&self) -> &str {
        self.me.instance()
    }

    pub(super) fn is_in(&self) -> bool {
        self.member.is_some()
    }

    /// Enters with what is prepared, if that is not what the fleet knows.
    pub(super) fn pursue(&mut self, charges: &Charges, now: Instant) {
        self.due = None;
        if self.joining.is_some() || self.said == Some(charges.revision()) {
            return;
        }
        let settled = *self.settled.get_or_insert(now + SETTLE);
        let settled = if charges.all_prepared() { now } else { settled };
        let due = settled.max(self.retry.unwrap_or(now));
        if due > now {
            self.due = Some(due);
            return;
        }
        (self.said, self.settled, self.retry) = (Some(charges.revision()), None, None);
        let member = self.me.serving(charges.prepared_groups().map(|group| &**group));
        // Who is in must not be thought to serve what it does not; who is not has nothing to say yet.
        let worth_saying = self.is_in() || !member.groups.is_empty();
        if worth_saying && self.member.as_ref() != Some(&member) {
            let coordinator = self.coordinator.clone();
            let joining = async move {
                let joined = coordinator.join(member.clone()).await;
                (member, joined)
            };
            self.joining = Some(joining.boxed());
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// For ever while it does not try.
    pub(super) async fn next_joined(&mut self) -> Joined {
        match &mut self.joining {
            Some(joining) => joining.await,
            None => std::future::pending().await,
        }
    }

    /// `Err`: this process cannot serve, for good.
    pub(super) fn joined(&mut self, (member, joined): Joined, configured: usize) -> Result<(), StartError> {
        self.joining = None;
        let error = match joined {
            Ok(()) => {
                info!(instance = member.instance, groups = member.groups.len(), configured, "joined the fleet");
                self.backoff.reset();
                self.member = Some(member);
                return Ok(());
            }
            Err(error) => error,
        };
        let first = self.member.is_none();
        let pause = self.backoff.step();
        (self.said, self.retry) = (None, Some(Instant::now() + pause));
        match error {
            taken @ CoordinatorError::InstanceTaken(_) if first && self.faults == Faults::End => return Err(taken.into()),
            CoordinatorError::Unavailable(_) => warn!(%error, retry_in = ?pause, "joining the fleet failed; it is tried again"),
            CoordinatorError::InstanceTaken(_) | CoordinatorError::Refused(_) => {
                error!(%error, retry_in = ?pause, "this process cannot be in the fleet as it is configured; it is tried again");
            }
        }
        Ok(())
    }

    /// For `/readyz`.
    pub(super) fn missing(&self) -> Option<String> {
        (!self.is_in()).then(|| "the pusher has not joined the fleet yet".to_owned())
    }
}

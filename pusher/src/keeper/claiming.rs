//! Becoming the owner, and staying it when somebody else wrote the cursor.

use std::time::Duration;

use common::coordinator::{ClaimError, Commit, Log};
use common::ids::{Epoch, Offset};
use tokio::sync::watch;
use tracing::{error, info};

use super::{Cause, Keeper, Phase, Step, Then, Trouble, Won, began};
use crate::backoff::Backoff;
use crate::births::{self, BackendError};
use crate::fleet::Shared;

/// The longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Why a partition is not ours yet. Every one is tried again: what is wrong may be put right from
/// outside, and no other partition waits for it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl Failed {
    fn cause(&self) -> Cause {
        match self {
            Self::Backend(_) | Self::Claim(ClaimError::Coordinator(_)) => Cause::Backend,
            Self::Claim(_) => Cause::Partition,
        }
    }
}

impl Keeper {
    /// Until it is ours, let go, or its topic is gone.
    pub(super) async fn claim(&mut self) -> Step {
        let mut backoff = Backoff::new(MAX_PAUSE);
        while !self.let_go.is_cancelled() {
            let mut hints = self.hints();
            let tried = tokio::select! {
                biased;
                tried = self.try_claim(None) => tried,
                () = self.shared.draining.cancelled() => break,
            };
            match tried {
                Ok(step) => return step,
                Err(failed) => self.report(&failed),
            }
            if !self.rest(backoff.step(), &mut hints).await {
                break;
            }
        }
        Step::End
    }

    /// The partition is ours, but its cursor is somebody else's.
    pub(super) async fn adopt(&mut self, last: Commit) -> Step {
        let mut backoff = Backoff::new(MAX_PAUSE);
        loop {
            let mut hints = self.hints();
            match self.try_claim(Some(last.epoch)).await {
                Ok(step) => return step,
                Err(Failed::Claim(ClaimError::EpochOver)) => return Step::Claim,
                Err(failed) => self.report(&failed),
            }
            if !self.rest(backoff.step(), &mut hints).await {
                return Step::GiveUp { last, then: Then::End };
            }
        }
    }

    /// Under a new claim, or as the successor of an epoch that we still own: that is to be given up if the topic is gone.
    pub(super) async fn try_claim(&self, former: Option<Epoch>) -> Result<Step, Failed> {
        let (Shared { coordinator, metrics, .. }, queue) = (&*self.shared, &*self.group.cluster.queue);
        let session = coordinator.lease().losses().sessions;
        let mut past_end = None;
        loop {
            let log = births::log_of(queue, &self.at.topic, self.at.partition).await.map_err(BackendError::from)?;
            let is_there = log.is_some();
            if !is_there && former.is_none() {
                return Ok(Step::End);
            }
            let log = log.map_or_else(|| self.unseen(), |log| Log { past_end, ..log });
            let claim = match former {
                None => coordinator.claim(&self.at, log).await,
                Some(epoch) => coordinator.adopt(&self.at, epoch, log).await,
            };
            match claim {
                Ok(claim) if !is_there => {
                    let last = Commit { at: self.at.clone(), epoch: claim.epoch, progress: claim.progress };
                    return Ok(Step::GiveUp { last, then: Then::End });
                }
                Ok(claim) => {
                    self.recovered();
                    began::announce(&self.at, &claim, metrics);
                    return Ok(Step::Serve(Won { claim, topic_id: log.topic_id, session }));
                }
                // It may have been written after the end was read.
                Err(ClaimError::PastEnd(highest)) => past_end = Some(highest),
                Err(ClaimError::NotBorn) => {
                    births::write(&self.group.config, &self.at.topic, queue, &**coordinator).await?;
                    return Err(Failed::Claim(ClaimError::NotBorn));
                }
                Err(error) => return Err(Failed::Claim(error)),
            }
        }
    }

    /// A log in which everything is as it stands: a cursor of our topic stays where it is.
    fn unseen(&self) -> Log {
        Log { topic_id: self.topic_id, first: Offset(0), end: Offset(u64::MAX), past_end: None }
    }

    /// Says so the first time, and whenever the reason is another one.
    fn report(&self, failed: &Failed) {
        self.shared.metrics.claim_failed(&self.at);
        let text = failed.to_string();
        let said = matches!(&*self.phase.borrow(), Phase::Claiming { trouble: Some(before) } if before.text == text);
        if said {
            return;
        }
        match failed {
            Failed::Claim(ClaimError::Held(_) | ClaimError::NotBorn) => {
                info!(group = %self.at.group, topic = %self.at.topic, partition = self.at.partition.0, reason = text, "the partition cannot be taken yet; it is tried again");
            }
            Failed::Claim(_) | Failed::Backend(_) => {
                error!(group = %self.at.group, topic = %self.at.topic, partition = self.at.partition.0, reason = text,
                    "the partition is not being delivered; taking it is tried again, other partitions go on");
            }
        }
        self.phase.send_replace(Phase::Claiming { trouble: Some(Trouble { text, cause: failed.cause() }) });
    }

    fn recovered(&self) {
        if let Phase::Claiming { trouble: Some(trouble) } = &*self.phase.borrow() {
            info!(group = %self.at.group, topic = %self.at.topic, partition = self.at.partition.0, trouble = trouble.text, "the trouble is over: the partition is taken");
        }
    }

    /// Of changes from now on: to be taken before the try that a change may make worth repeating.
    pub(super) fn hints(&self) -> watch::Receiver<u64> {
        let mut hints = self.shared.coordinator.hints();
        hints.mark_unchanged();
        hints
    }

    /// `false` once the partition is let go. A hint that something changed ends the rest early.
    pub(super) async fn rest(&self, pause: Duration, hints: &mut watch::Receiver<u64>) -> bool {
        let rest = async {
            // However often hints come, tries are at least this far apart.
            tokio::time::sleep(pause.min(Backoff::FIRST)).await;
            tokio::select! {
                biased;
                () = tokio::time::sleep(pause.saturating_sub(Backoff::FIRST)) => {}
                Ok(()) = hints.changed() => {}
            }
        };
        tokio::select! {
            biased;
            () = self.let_go.cancelled() => false,
            () = rest => true,
        }
    }
}

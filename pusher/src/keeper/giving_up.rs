//! Giving the ownership up, and with it the last progress.

use std::time::Duration;

use common::coordinator::{Commit, CommitError};
use common::ids::GroupPartition;
use tokio::time::Instant;
use tracing::error;

use super::{GIVE_UP_TIMEOUT, Keeper, Phase, Step, Won};
use crate::backoff::Backoff;

impl Keeper {
    /// Stores how far it came, together with giving the ownership up. Tried until it is answered:
    /// nobody else can have the partition before. Only a process that has to end gives in.
    pub(super) async fn give_up(&self, last: Commit) {
        self.phase.send_replace(Phase::Ending);
        let mut trying = Trying { last, reason: String::new() };
        tokio::select! {
            biased;
            () = self.try_to_give_up(&mut trying) => {}
            () = self.out_of_time() => self.not_stored(&trying.last, &trying.reason),
        }
    }

    /// Attempts that ended early leave their time to a coordinator that is away for a moment.
    async fn out_of_time(&self) {
        self.shared.draining.cancelled().await;
        let began = *self.shared.drain_began.get_or_init(Instant::now);
        tokio::time::sleep_until(began + self.shared.grace + GIVE_UP_TIMEOUT).await;
    }

    async fn try_to_give_up(&self, trying: &mut Trying) {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        loop {
            let last = &trying.last;
            let reason = match self.shared.coordinator.release(last).await {
                Ok(()) => return,
                Err(CommitError::EpochOver) => return self.not_stored(last, "this epoch is over"),
                // The other's cursor stands: take it up and give that up.
                Err(CommitError::Moved) => match self.try_claim(Some(last.epoch)).await {
                    Ok(Step::Serve(Won { claim, .. })) => {
                        trying.last = Commit { at: self.at.clone(), epoch: claim.epoch, progress: claim.progress };
                        String::new()
                    }
                    Ok(Step::GiveUp { last, .. }) => {
                        trying.last = last;
                        String::new()
                    }
                    Ok(_) => return,
                    Err(trouble) => trouble.to_string(),
                },
                Err(CommitError::Coordinator(error)) => error.to_string(),
            };
            trying.reason = reason;
            tokio::time::sleep(backoff.step()).await;
        }
    }

    /// Nothing is lost by it: what was not stored is done again.
    fn not_stored(&self, last: &Commit, reason: &str) {
        let GroupPartition { group, topic, partition } = &self.at;
        error!(%group, %topic, partition = partition.0, cursor = last.progress.cursor.0, reason,
            "the last cursor could not be stored; what was done since the last commit will be delivered again");
    }
}

/// As far as it has come.
struct Trying {
    last: Commit,
    /// Why the last try failed.
    reason: String,
}

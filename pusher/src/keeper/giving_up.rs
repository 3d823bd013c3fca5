//! Giving the ownership up, and with it the last progress.

use std::time::Duration;

use common::coordinator::{Commit, CommitError};
use common::ids::GroupPartition;
use tokio::time::Instant;
use tracing::error;

use super::{GIVE_UP_TIMEOUT, Keeper, Phase, Step};
use crate::backoff::Backoff;

impl Keeper {
    /// Stores how far it came, together with giving the ownership up.
    pub(super) async fn give_up(&self, mut last: Commit) {
        self.phase.send_replace(Phase::Ending);
        let deadline = Instant::now() + GIVE_UP_TIMEOUT;
        let mut backoff = Backoff::new(Duration::from_secs(1));
        loop {
            let reason = match self.backends.coordinator.release(&last).await {
                Ok(()) => return,
                Err(CommitError::EpochOver) => return self.not_stored(&last, "this epoch is over"),
                // The other's cursor stands: take it up and give that up.
                Err(CommitError::Moved) => match self.try_claim(Some(last.epoch)).await {
                    Ok(Step::Serve(claim, _)) => {
                        last = Commit { at: self.at.clone(), epoch: claim.epoch, progress: claim.progress };
                        String::new()
                    }
                    Ok(_) => return,
                    Err(trouble) => trouble.to_string(),
                },
                Err(CommitError::Coordinator(error)) => error.to_string(),
            };
            if Instant::now() >= deadline {
                return self.not_stored(&last, &reason);
            }
            tokio::time::sleep(backoff.step()).await;
        }
    }

    /// Nothing is lost by it: what was not stored is done again.
    pub(super) fn not_stored(&self, last: &Commit, reason: &str) {
        let GroupPartition { group, topic, partition } = &self.at;
        error!(%group, %topic, partition = partition.0, cursor = last.progress.cursor.0, reason,
            "the last cursor could not be stored; what was done since the last commit will be delivered again");
    }
}

//! Who keeps what, for those who ask: the admin API and the scrape.

use std::sync::Arc;

use common::ids::GroupPartition;
use engine::task::Status;
use tokio::sync::oneshot;

use crate::keeper::{Command, KeeperHandle, Phase};

/// Replaced by the fleet after every change.
pub(crate) type Directory = Arc<[Entry]>;

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) at: GroupPartition,
    pub(crate) keeper: KeeperHandle,
}

impl Entry {
    pub(crate) fn phase(&self) -> Phase {
        self.keeper.phase.borrow().clone()
    }

    pub(crate) fn serving(&self) -> bool {
        matches!(*self.keeper.phase.borrow(), Phase::Serving(_))
    }

    /// `None` unless it is being served right now. Waits while its last commit is under way.
    pub(crate) async fn status(&self) -> Option<Status> {
        if !self.serving() {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        self.keeper.commands.send(Command::Status(answer)).await.ok()?;
        answered.await.ok()
    }
}

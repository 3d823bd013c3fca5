//! One assignment of a partition to a client: what its reader and the thread that assigns share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Notify;

use super::cluster::Consumer;
use super::metrics::Reopening;
use super::native::{Queue, TAKE_RECORDS, Taken};
use crate::ids::Offset;

pub(super) struct Line {
    /// `None` once the assignment has ended.
    records: Mutex<Option<Queue>>,
    ended: OnceLock<Reopening>,
    wake: Notify,
    /// Something lies there that nobody has come for.
    unread: AtomicBool,
    /// The reader has taken everything, and waits for more.
    waiting: AtomicBool,
    /// After everything that was taken.
    position: AtomicU64,
    /// Outlives the queue, which is dropped before.
    client: Arc<Consumer>,
}

/// While a reader waits.
struct Waiting<'a>(&'a AtomicBool);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Line {
    pub(super) fn new(client: Arc<Consumer>, records: Queue, from: Offset) -> Self {
        Self {
            records: Mutex::new(Some(records)),
            ended: OnceLock::new(),
            wake: Notify::new(),
            unread: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            position: AtomicU64::new(from.0),
            client,
        }
    }

    pub(super) fn client(&self) -> &Consumer {
        &self.client
    }

    /// Takes some of what lies there; how much that was. An error once the assignment has ended:
    /// only another one has what comes next.
    pub(super) fn take(&self, sink: impl FnMut(Taken)) -> Result<usize, Reopening> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = &*records else { return Err(self.ended.get().copied().unwrap_or(Reopening::GivenBack)) };
        // Before it is looked at: what comes from now on says so itself.
        self.unread.store(false, Ordering::Release);
        let taken = queue.take(sink);
        if taken == TAKE_RECORDS {
            self.unread.store(true, Ordering::Release);
        }
        Ok(taken)
    }

    pub(super) fn stands_at(&self, position: Offset) {
        self.position.store(position.0, Ordering::Relaxed);
    }

    /// Until there may be something. Cancel safe.
    pub(super) async fn woken(&self) {
        self.waiting.store(true, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        self.wake.notified().await;
    }

    pub(super) fn came(&self) {
        self.unread.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }

    pub(super) fn position(&self) -> Offset {
        Offset(self.position.load(Ordering::Relaxed))
    }

    /// Where its reader waits, if it does.
    pub(super) fn waits_at(&self) -> Option<Offset> {
        self.waiting.load(Ordering::Relaxed).then(|| self.position())
    }

    /// From now on its reader gets nothing. Gives what it has not read; `None` if it had ended before.
    pub(super) fn end(&self, why: Reopening) -> Option<Queue> {
        let queue = self.records.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let _ = self.ended.set(why);
        self.wake.notify_one();
        Some(queue)
    }
}

//! One reader for several groups: a task reads ahead for those who wait at the head of the ring.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ring::{ReaderId, Ring, Taken};
use crate::ids::Offset;
use crate::queue::{ReadError, Reader};

/// Kept for readers that are behind others: by all hubs together, and by one.
const TOTAL_BYTES: usize = 64 << 20;
const MAX_BYTES: usize = 4 << 20;
/// Read at a time.
const BATCH_BYTES: usize = 256 << 10;

/// How many hubs there are.
#[derive(Clone, Default)]
pub(super) struct Hubs(Arc<AtomicUsize>);

impl Hubs {
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// What one of them may keep.
    fn share_bytes(&self) -> usize {
        (TOTAL_BYTES / self.0.load(Ordering::Relaxed).max(1)).min(MAX_BYTES)
    }
}

/// Dropped with its last seat, it ends its reader.
pub(super) struct Hub {
    ring: Arc<Mutex<Ring>>,
    /// Somebody waits at the head.
    wanted: Arc<Notify>,
    progress: watch::Receiver<Progress>,
    hubs: Hubs,
    _reading: DropGuard,
}

#[derive(Debug, Clone)]
enum Progress {
    Read,
    Failed(ReadError),
}

impl Hub {
    /// Of a reader that stands at `at`, or will once it is open. Needs a tokio runtime.
    pub(super) fn start(
        reader: impl Future<Output = Result<Box<dyn Reader>, ReadError>> + Send + 'static,
        at: Offset,
        hubs: &Hubs,
    ) -> Self {
        hubs.0.fetch_add(1, Ordering::Relaxed);
        let (ring, wanted, stop) = (Arc::new(Mutex::new(Ring::new(at))), Arc::new(Notify::new()), CancellationToken::new());
        let (said, progress) = watch::channel(Progress::Read);
        let pump = Pump { ring: Arc::clone(&ring), wanted: Arc::clone(&wanted), said, hubs: hubs.clone() };
        tokio::spawn(stop.clone().run_until_cancelled_owned(pump.run(reader)));
        Self { ring, wanted, progress, hubs: hubs.clone(), _reading: stop.drop_guard() }
    }

    /// One more reader, if its place is near, and nothing failed.
    pub(super) fn join(self: &Arc<Self>, from: Offset) -> Option<Seat> {
        if let Progress::Failed(_) = *self.progress.borrow() {
            return None;
        }
        let id = lock(&self.ring).join(from)?;
        Some(Seat { hub: Arc::clone(self), id, progress: self.progress.clone() })
    }

    pub(super) fn head(&self) -> Offset {
        lock(&self.ring).head()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.hubs.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A task of its own: a group that is paused or full does not poll what it waits for, and must not hold up the others.
struct Pump {
    ring: Arc<Mutex<Ring>>,
    wanted: Arc<Notify>,
    said: watch::Sender<Progress>,
    hubs: Hubs,
}

impl Pump {
    async fn run(self, reader: impl Future<Output = Result<Box<dyn Reader>, ReadError>>) {
        let Err(error) = self.read(reader).await;
        self.said.send_replace(Progress::Failed(error));
    }

    async fn read(&self, reader: impl Future<Output = Result<Box<dyn Reader>, ReadError>>) -> Result<Infallible, ReadError> {
        let mut reader = reader.await?;
        loop {
            self.wanted.notified().await;
            let batch = reader.next(BATCH_BYTES).await?;
            lock(&self.ring).add(batch, self.hubs.share_bytes());
            self.said.send_replace(Progress::Read);
        }
    }
}

/// A reader's place in the ring. Dropped, it is given up.
pub(super) struct Seat {
    hub: Arc<Hub>,
    id: ReaderId,
    progress: watch::Receiver<Progress>,
}

impl Seat {
    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(super) fn position(&self) -> Offset {
        lock(&self.hub.ring).position(self.id)
    }

    /// What is read later than this call wakes [`Self::more`].
    pub(super) fn take(&mut self, max_bytes: usize) -> Taken {
        self.progress.mark_unchanged();
        lock(&self.hub.ring).take(self.id, max_bytes)
    }

    /// Waits until there is more than at the last [`Self::take`].
    ///
    /// # Errors
    /// As the one reader's: it reads no more, and neither does anybody at the head.
    pub(super) async fn more(&mut self) -> Result<(), ReadError> {
        if let Progress::Failed(error) = &*self.progress.borrow() {
            return Err(error.clone());
        }
        self.hub.wanted.notify_one();
        // The sender ends only with what it says last.
        drop(self.progress.changed().await);
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.hub.ring).leave(self.id);
    }
}

/// Nothing panics while it holds this.
fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

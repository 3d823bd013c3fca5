//! What the committing thread, the housekeeper, producers and readers all see.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::Needs;
use super::catalog::Catalog;
use super::meta::Meta;
use super::metrics::Metrics;
use super::options::Options;
use super::segment::Segment;
use crate::record::TimestampMs;
use crate::store::Store;

pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) meta: Meta,
    pub(super) catalog: Catalog,
    pub(super) options: Options,
    pub(super) metrics: Metrics,
    pub(super) health: Health,
    /// An empty segment made ahead, so that no commit waits for it.
    pub(super) spare: Mutex<Option<Arc<Segment>>>,
    pub(super) next_segment: AtomicU64,
    /// Unset: nobody has said yet what is needed, so age drops nothing.
    pub(super) needs: RwLock<Option<Arc<dyn Needs>>>,
}

impl Shared {
    pub(super) fn now(&self) -> TimestampMs {
        (self.options.clock)()
    }

    pub(super) fn take_spare(&self) -> Option<Arc<Segment>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn put_spare(&self, segment: Arc<Segment>) {
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(segment);
    }

    pub(super) fn new_segment(&self) -> Result<Arc<Segment>, crate::store::StoreError> {
        Segment::open(&self.store, self.next_segment.fetch_add(1, Ordering::Relaxed))
    }
}

/// Whether messages can be written, for who asks from outside.
#[derive(Default)]
pub(super) struct Health {
    disk: AtomicU8,
    /// When the commit under way began.
    committing: Mutex<Option<Instant>>,
}

const DISK_FULL: u8 = 1;
/// A disk that takes this long for a sync is worth a word to the person on call.
const SLOW_COMMIT: Duration = Duration::from_secs(5);

impl Health {
    /// Whether this is news.
    pub(super) fn set_disk_full(&self, full: bool) -> bool {
        let state = if full { DISK_FULL } else { 0 };
        self.disk.swap(state, Ordering::Relaxed) != state
    }

    pub(super) fn begin_commit(&self) -> Instant {
        let now = Instant::now();
        *self.committing.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        now
    }

    pub(super) fn end_commit(&self) {
        *self.committing.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn missing(&self, store: &Store) -> Vec<String> {
        let folder = store.folder().display();
        let mut missing = Vec::new();
        // Its failure is what `failed` says.
        drop(store.check_folder());
        if let Some(reason) = store.failed() {
            missing.push(format!("the store in {folder} failed while writing ({reason}); mend the disk and restart"));
        }
        if self.disk.load(Ordering::Relaxed) == DISK_FULL {
            missing.push(format!("the disk under {folder} is full; messages are refused until there is room"));
        }
        let committing = *self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(took) = committing.map(|since| since.elapsed()).filter(|took| *took > SLOW_COMMIT) {
            missing.push(format!("the disk under {folder} has not answered a sync for {} s", took.as_secs()));
        }
        missing
    }
}

//! Notes in the journal about how far it was synced, by which damage to what was acknowledged is
//! told from a write that a power cut left unfinished (see `journal`).
//!
//! Now and then a synced batch carries the number of an earlier batch that a sync had passed. If
//! it is whole and that earlier batch is not, the disk has lost something.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, OwnedWriteBatch, Slice};

/// In the store's own keyspace, and no key of another.
pub(super) const KEY: [u8; 15] = *b"journal.synced\0";
/// Seldom enough to cost nothing.
pub(super) const EVERY: Duration = Duration::from_millis(50);

pub(super) struct Marks {
    own: Keyspace,
    db: Database,
    state: Mutex<State>,
}

struct State {
    /// A batch of this number or a higher one, and all before it, are on the disk.
    synced: u64,
    marked: Option<Instant>,
}

impl Marks {
    /// All that the journal holds is on the disk, as it is after `fjall` has opened it.
    pub(super) fn new(own: Keyspace, db: Database) -> Self {
        let state = Mutex::new(State { synced: db.supervisor.seqno.get(), marked: None });
        Self { own, db, state }
    }

    /// Before a batch is committed with a sync; what it returns is for [`Marks::synced`] after that.
    pub(super) fn add_to(&self, batch: &mut OwnedWriteBatch) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.marked.is_none_or(|marked| marked.elapsed() >= EVERY) {
            state.marked = Some(Instant::now());
            batch.insert(&self.own, Slice::from(KEY), Slice::from(state.synced.to_be_bytes()));
        }
        // The batch gets this number, or a higher one if others come first.
        self.db.supervisor.seqno.get()
    }

    pub(super) fn synced(&self, number: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.synced = state.synced.max(number);
    }
}

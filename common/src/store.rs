//! The one embedded store of a data folder. Everything that is kept on disk without Kafka and
//! `ZooKeeper` goes through here: the records of the embedded log and the cursors of the embedded
//! coordinator. No other module names `fjall`.
//!
//! ```no_run
//! use common::store::{Durability, Profile, Store};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open("./mqgate-data".as_ref())?;
//! let cursors = store.keyspace("cursors", Profile::Small)?;
//! let mut batch = store.batch();
//! batch.put(&cursors, b"group/topic/0", b"17".as_slice());
//! batch.delete(&cursors, b"group/topic/1");
//! batch.commit(Durability::Synced)?; // all or nothing; on disk when this returns
//! let view = store.view(); // what is committed later is not seen through it
//! assert!(view.get(&cursors, b"group/topic/0")?.is_some());
//! # Ok(()) }
//! ```
//!
//! Every call may block on the disk: a sync takes 0.1 ms on a good disk and seconds on a bad one.
//! Call from a thread that may wait (`spawn_blocking`), never from a task that serves others.
//! Handles are cheap to clone and may be used from any thread. Batches are atomic, also over
//! keyspaces, and are applied in the order of their commits; a read-then-write needs a lock of the
//! caller's own.
//!
//! The bounds that keep memory flat, whatever lies on disk: a block cache of 16 MiB, log memtables
//! of 8 MiB of which at most four wait to be flushed, no filters, no pinned indexes, at most 128
//! open files. `fjall` would rotate a memtable by itself, but asks for it with a message per
//! commit into a bounded channel on which its own worker then blocks; so [`Keyspace::rotate`] is
//! called before that happens.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use fjall::{Database, PersistMode};

use self::folder::Opened;
use self::marks::Marks;

pub use self::batch::{Batch, Durability};
pub use self::keyspace::{Keyspace, Profile, Range, View};

mod batch;
mod folder;
mod journal;
mod keyspace;
mod marks;

const CACHE_BYTES: u64 = 16 << 20;
/// The smallest that `fjall` accepts. Keyspaces that hold an older journal back are flushed then.
const JOURNALS_BYTES: u64 = 64 << 20;
const OPEN_FILES: usize = 128;
/// Far more than keyspaces are made and deleted between two commits that last.
const NUMBERS_BETWEEN_LIVES: u64 = 1 << 20;
const OWN_KEYSPACE: &str = "store";
/// One is enough for flushing, and with two the first spins while the second compacts.
const WORKERS: usize = 1;

/// The store of one data folder, held by one process at a time. Dropping the last handle syncs it.
#[derive(Clone)]
pub struct Store {
    db: Database,
    shared: Arc<Shared>,
    marks: Arc<Marks>,
}

struct Shared {
    folder: PathBuf,
    opened: Opened,
    failed: OnceLock<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("data folder {} is in use by another mqgate process; stop that one, or give this one a folder of its own (--data-dir)", .0.display())]
    InUse(PathBuf),
    #[error("data folder {} cannot be used: {reason}", .folder.display())]
    Unusable { folder: PathBuf, reason: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing is written until the process restarts: after a failed sync nobody knows what the
    /// disk holds, and asking again may lie.
    #[error("the store in {} failed while writing and takes nothing more until a restart: {reason}", .folder.display())]
    Failed { folder: PathBuf, reason: String },
    #[error("the store in {} cannot be read: {reason}", .folder.display())]
    Read { folder: PathBuf, reason: String },
}

impl Store {
    /// Opens the folder, or makes it. Takes as long as reading the journals does (at most about
    /// 200 MB), however large the log is.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        let unusable = |reason: String| OpenError::Unusable { folder: folder.to_owned(), reason };
        folder::prepare(folder)?;
        let opened = Database::builder(folder)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNALS_BYTES)
            .max_cached_files(Some(OPEN_FILES))
            .worker_threads(WORKERS)
            .journal_compression(fjall::CompressionType::None)
            .open();
        let db = opened.map_err(|e| match e {
            fjall::Error::Locked => OpenError::InUse(folder.to_owned()),
            other => unusable(describe(&other)),
        })?;
        let opened = Opened::new(folder).map_err(|e| unusable(e.to_string()))?;
        let shared = Arc::new(Shared { folder: folder.to_owned(), opened, failed: OnceLock::new() });
        Self::begin_life(db, shared).map_err(|e| unusable(e.to_string()))
    }

    /// `fjall` (3.1) forgets at a restart which sequence numbers its own notes about keyspaces had,
    /// when no record is younger, and may give a deleted keyspace's id to a new one. The note of
    /// the deletion is then younger than the new keyspace's notes and hides them: the new keyspace
    /// is taken for deleted at the next start. So each life of the store begins well above the
    /// last one's numbers, and writes one down.
    fn begin_life(db: Database, shared: Arc<Shared>) -> Result<Self, StoreError> {
        let numbers = &db.supervisor.seqno;
        numbers.fetch_max(numbers.get() + NUMBERS_BETWEEN_LIVES);
        let own = db.keyspace(OWN_KEYSPACE, || Profile::Small.options()).map_err(|e| shared.write_failed(&e))?;
        let marks = Arc::new(Marks::new(own.clone(), db.clone()));
        let own = Keyspace::new(own, Arc::clone(&shared));
        let began_at = numbers.get();
        let store = Self { db, shared, marks };
        let mut batch = store.batch();
        batch.put(&own, b"opened", began_at.to_be_bytes().to_vec());
        batch.commit(Durability::Synced)?;
        Ok(store)
    }

    /// Opens a keyspace, or makes it (some milliseconds: it syncs). The profile counts when it is made.
    ///
    /// # Panics
    /// If the name is empty or longer than 255 bytes.
    pub fn keyspace(&self, name: &str, profile: Profile) -> Result<Keyspace, StoreError> {
        let made = self.db.keyspace(name, || profile.options());
        made.map(|inner| Keyspace::new(inner, Arc::clone(&self.shared))).map_err(|e| self.shared.write_failed(&e))
    }

    pub fn keyspace_names(&self) -> Vec<String> {
        let names = self.db.list_keyspace_names();
        names.iter().map(|name| name.to_string()).filter(|name| name != OWN_KEYSPACE).collect()
    }

    /// Removes a keyspace with all that is in it, without a tombstone for each. The space is free
    /// when the last handle to it is dropped, this one included.
    pub fn delete_keyspace(&self, keyspace: Keyspace) -> Result<(), StoreError> {
        self.db.delete_keyspace(keyspace.into_inner()).map_err(|e| self.shared.write_failed(&e))
    }

    pub fn batch(&self) -> Batch {
        Batch::new(self.db.batch(), Arc::clone(&self.shared), Arc::clone(&self.marks))
    }

    /// A consistent view over all keyspaces. Keep it for a short time only: it holds old data back.
    pub fn view(&self) -> View {
        View::new(self.db.snapshot(), Arc::clone(&self.shared))
    }

    /// Makes everything committed so far, buffered or not, durable.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.db.persist(PersistMode::SyncAll).map_err(|e| self.shared.write_failed(&e))
    }

    /// Why the store takes no more writes; `None` while all is well.
    pub fn failed(&self) -> Option<&str> {
        self.shared.failed.get().map(String::as_str)
    }

    /// Fails the store if its folder is no longer where it was opened. Every synced commit does
    /// the same; this is for who asks how the store is while nothing is written.
    pub fn check_folder(&self) -> Result<(), StoreError> {
        self.shared.check_folder()
    }

    /// The same as an error, which says what to do.
    pub fn failure(&self) -> Option<StoreError> {
        let failed = |reason: &str| StoreError::Failed { folder: self.shared.folder.clone(), reason: reason.to_owned() };
        self.failed().map(failed)
    }

    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// What the folder's file system would still give us, and its size, in bytes.
    pub fn free_bytes(&self) -> std::io::Result<(u64, u64)> {
        let stat = rustix::fs::statvfs(&self.shared.folder)?;
        Ok((stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize)))
    }

    /// What lies in memory only as tables go, and will need as much space on disk, in bytes.
    pub fn unflushed_bytes(&self) -> u64 {
        self.db.write_buffer_size()
    }

    /// Memtables that wait to be flushed.
    pub fn waiting_flushes(&self) -> usize {
        self.db.outstanding_flushes()
    }

    /// What the journals and tables take on disk, in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.db.disk_space().unwrap_or(0)
    }
}

impl Shared {
    fn write_failed(&self, error: &fjall::Error) -> StoreError {
        self.fail(describe(error))
    }

    fn check_folder(&self) -> Result<(), StoreError> {
        self.opened.lost().map_or(Ok(()), |reason| Err(self.fail(reason)))
    }

    fn fail(&self, reason: String) -> StoreError {
        let reason = self.failed.get_or_init(|| {
            tracing::error!(folder = %self.folder.display(), reason, "the store failed while writing; nothing is written until a restart");
            reason
        });
        StoreError::Failed { folder: self.folder.clone(), reason: reason.clone() }
    }

    fn read_failed(&self, error: &fjall::Error) -> StoreError {
        StoreError::Read { folder: self.folder.clone(), reason: describe(error) }
    }
}

fn describe(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(e) => e.to_string(),
        fjall::Error::Poisoned => "an earlier write, sync or flush failed".to_owned(),
        fjall::Error::InvalidVersion(_) => "it was written by another version of the store".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests;

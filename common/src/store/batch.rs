//! Atomic writes.

use std::sync::Arc;

use bytes::Bytes;
use fjall::{OwnedWriteBatch, PersistMode, Slice};

use super::marks::Marks;
use super::{Keyspace, Shared, StoreError};

/// When a commit returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once the disk has it.
    Synced,
    /// Once the operating system has it: it survives the death of the process, not of the machine.
    /// The next synced commit carries it to the disk.
    Buffered,
}

/// Puts and deletes that take effect together. Dropped without a commit, it does nothing.
pub struct Batch {
    inner: OwnedWriteBatch,
    shared: Arc<Shared>,
    marks: Arc<Marks>,
}

impl Batch {
    pub(super) fn new(inner: OwnedWriteBatch, shared: Arc<Shared>, marks: Arc<Marks>) -> Self {
        Self { inner, shared, marks }
    }

    /// Keys have at most 65,535 bytes, values less than 4 GiB. Putting a key twice in one batch is an error of
    /// the caller: which one stands is not defined.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: impl Into<Bytes>) {
        self.inner.insert(keyspace.inner(), Slice::from(key), Slice::from(value.into()));
    }

    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) {
        self.inner.remove(keyspace.inner(), Slice::from(key));
    }

    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Writes everything or nothing. After an error nobody can tell which until the store is
    /// opened again; until then it takes no more writes.
    pub fn commit(self, durability: Durability) -> Result<(), StoreError> {
        match durability {
            Durability::Synced => self.commit_synced(),
            Durability::Buffered => commit(self.inner, PersistMode::Buffer, &self.shared),
        }
    }

    fn commit_synced(mut self) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        let number = self.marks.add_to(&mut self.inner);
        commit(self.inner, PersistMode::SyncData, &self.shared)?;
        self.marks.synced(number);
        // A sync succeeds on files that nobody will find again.
        self.shared.check_folder()
    }
}

fn commit(batch: OwnedWriteBatch, mode: PersistMode, shared: &Shared) -> Result<(), StoreError> {
    batch.durability(Some(mode)).commit().map_err(|e| shared.write_failed(&e))
}

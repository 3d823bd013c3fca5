//! Atomic writes.

use std::sync::Arc;

use bytes::Bytes;
use fjall::{OwnedWriteBatch, PersistMode, Slice};

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
}

impl Batch {
    pub(super) fn new(inner: OwnedWriteBatch, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
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
        let mode = match durability {
            Durability::Synced => PersistMode::SyncData,
            Durability::Buffered => PersistMode::Buffer,
        };
        self.inner.durability(Some(mode)).commit().map_err(|e| self.shared.write_failed(&e))
    }
}

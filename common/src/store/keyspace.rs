//! One sorted map of the store, and reading it.

use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;
use fjall::config::{BlockSizePolicy, FilterPolicy, PinningPolicy};
use fjall::{KeyspaceCreateOptions, Readable, compaction};

use super::{Shared, StoreError};

/// What a keyspace is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Little data, read by key and often written over: cursors, topics.
    Small,
    /// Much data, written once in about its order, read in ranges, and dropped as a whole. It is
    /// never compacted (each byte is written to the journal and to one table), so its owner calls
    /// [`Keyspace::rotate`], and writes to it no more long before it has 30 [`Keyspace::tables`].
    Log,
}

const SMALL_MEMTABLE_BYTES: u64 = 1 << 20;
/// Far above what an owner lets it grow to, so that `fjall` never asks for a rotation by itself.
const LOG_MEMTABLE_BYTES: u64 = 1 << 30;
const LOG_BLOCK_BYTES: u32 = 64 << 10;

impl Profile {
    pub(super) fn options(self) -> KeyspaceCreateOptions {
        let options = KeyspaceCreateOptions::default().manual_journal_persist(true);
        match self {
            Self::Small => options.max_memtable_size(SMALL_MEMTABLE_BYTES),
            Self::Log => options
                .max_memtable_size(LOG_MEMTABLE_BYTES)
                .data_block_size_policy(BlockSizePolicy::all(LOG_BLOCK_BYTES))
                .filter_policy(FilterPolicy::disabled())
                .filter_block_pinning_policy(PinningPolicy::disabled())
                .index_block_pinning_policy(PinningPolicy::disabled())
                .compaction_strategy(Arc::new(compaction::Leveled::default().with_l0_threshold(u8::MAX))),
        }
    }
}

/// A handle to one keyspace. While one lives, the keyspace's files stay, deleted or not.
#[derive(Clone)]
pub struct Keyspace {
    inner: fjall::Keyspace,
    shared: Arc<Shared>,
}

impl Keyspace {
    pub(super) fn new(inner: fjall::Keyspace, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    pub(super) fn inner(&self) -> &fjall::Keyspace {
        &self.inner
    }

    pub(super) fn into_inner(self) -> fjall::Keyspace {
        self.inner
    }

    pub fn name(&self) -> &str {
        self.inner.name()
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let found = self.inner.get(key).map_err(|e| self.shared.read_failed(&e))?;
        Ok(found.map(Bytes::from))
    }

    /// In key order, or backwards with `rev()`. A value may be a slice of a whole block (64 KiB in
    /// a log keyspace): copy what is to be kept.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range {
        Range { inner: self.inner.range(range), shared: Arc::clone(&self.shared) }
    }

    pub fn prefix(&self, prefix: &[u8]) -> Range {
        Range { inner: self.inner.prefix(prefix), shared: Arc::clone(&self.shared) }
    }

    /// Closes the memtable, to be flushed in the background.
    pub fn rotate(&self) -> Result<(), StoreError> {
        self.inner.rotate_memtable().map(|_| ()).map_err(|e| self.shared.write_failed(&e))
    }

    /// Files that it consists of. With 30 in which the same keys may lie it takes no more writes.
    pub fn tables(&self) -> usize {
        self.inner.table_count()
    }

    /// Writes many entries past the journal: durable and visible, all of them, when this returns;
    /// none after an error.
    ///
    /// # Panics
    /// If the keys are not in ascending order.
    pub fn bulk_load(&self, entries: impl Iterator<Item = Result<(Bytes, Bytes), StoreError>>) -> Result<(), StoreError> {
        let failed = |e| self.shared.write_failed(&e);
        let mut ingestion = self.inner.start_ingestion().map_err(failed)?;
        for entry in entries {
            let (key, value) = entry?;
            ingestion.write(key, value).map_err(failed)?;
        }
        ingestion.finish().map_err(failed)
    }
}

/// A consistent view of all keyspaces.
pub struct View {
    inner: fjall::Snapshot,
    shared: Arc<Shared>,
}

impl View {
    pub(super) fn new(inner: fjall::Snapshot, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let found = self.inner.get(&keyspace.inner, key).map_err(|e| self.shared.read_failed(&e))?;
        Ok(found.map(Bytes::from))
    }

    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Range {
        Range { inner: self.inner.range(&keyspace.inner, range), shared: Arc::clone(&self.shared) }
    }

    pub fn prefix(&self, keyspace: &Keyspace, prefix: &[u8]) -> Range {
        Range { inner: self.inner.prefix(&keyspace.inner, prefix), shared: Arc::clone(&self.shared) }
    }
}

/// Entries of a keyspace in key order.
pub struct Range {
    inner: fjall::Iter,
    shared: Arc<Shared>,
}

impl Range {
    fn entry(&self, guard: fjall::Guard) -> Result<(Bytes, Bytes), StoreError> {
        match guard.into_inner() {
            Ok((key, value)) => Ok((key.into(), value.into())),
            Err(e) => Err(self.shared.read_failed(&e)),
        }
    }
}

impl Iterator for Range {
    type Item = Result<(Bytes, Bytes), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let guard = self.inner.next()?;
        Some(self.entry(guard))
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        let guard = self.inner.next_back()?;
        Some(self.entry(guard))
    }
}

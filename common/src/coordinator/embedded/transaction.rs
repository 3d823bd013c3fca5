//! Many verbs in one batch of the store, each of which sees what those before it wrote.

use std::collections::BTreeMap;

use crate::store::{Durability, Keyspace, Store, StoreError};

pub(super) struct Transaction {
    store: Store,
    keyspace: Keyspace,
    written: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Transaction {
    pub(super) fn new(store: Store, keyspace: Keyspace) -> Self {
        Self { store, keyspace, written: BTreeMap::new() }
    }

    /// Asked by every verb that writes, before it changes anything in memory.
    pub(super) fn writable(&self) -> Result<(), StoreError> {
        match self.store.failed() {
            None => Ok(()),
            Some(reason) => Err(StoreError::Failed { folder: self.store.folder().to_owned(), reason: reason.to_owned() }),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.written.get(key) {
            Some(value) => Ok(Some(value.clone())),
            None => Ok(self.keyspace.get(key)?.map(Vec::from)),
        }
    }

    /// Every key with that prefix, in no order.
    pub(super) fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let stored: Result<Vec<_>, _> = self.keyspace.prefix(prefix).map(|entry| entry.map(|(key, _)| key.to_vec())).collect();
        let written = self.written.keys().filter(|key| key.starts_with(prefix));
        Ok(stored?.into_iter().chain(written.cloned()).collect())
    }

    pub(super) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.written.insert(key, value);
    }

    /// All of it or nothing, on the disk when this returns; empty again afterwards.
    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        let mut batch = self.store.batch();
        for (key, value) in std::mem::take(&mut self.written) {
            batch.put(&self.keyspace, &key, value);
        }
        batch.commit(Durability::Synced)
    }
}

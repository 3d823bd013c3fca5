//! Many verbs in one batch of the store, each of which sees what those before it wrote.

use std::collections::BTreeMap;

use crate::store::{Durability, Keyspace, Store, StoreError};

pub(super) struct Transaction {
    store: Store,
    keyspace: Keyspace,
    written: BTreeMap<Vec<u8>, Vec<u8>>,
    durability: Durability,
}

impl Transaction {
    pub(super) fn new(store: Store, keyspace: Keyspace) -> Self {
        Self { store, keyspace, written: BTreeMap::new(), durability: Durability::Buffered }
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

    /// One synced write makes the whole transaction a synced one.
    pub(super) fn put(&mut self, key: Vec<u8>, value: Vec<u8>, durability: Durability) {
        self.written.insert(key, value);
        if durability == Durability::Synced {
            self.durability = Durability::Synced;
        }
    }

    /// All of it or nothing; empty again afterwards.
    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        let durability = std::mem::replace(&mut self.durability, Durability::Buffered);
        let mut batch = self.store.batch();
        for (key, value) in std::mem::take(&mut self.written) {
            batch.put(&self.keyspace, &key, value);
        }
        if batch.is_empty() { Ok(()) } else { batch.commit(durability) }
    }
}

#![allow(clippy::unwrap_used)]

use super::*;

mod damage;
mod folder;

fn open() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

#[test]
fn a_batch_is_seen_whole_and_survives_a_restart() {
    let (folder, store) = open();
    let (a, b) = (store.keyspace("a", Profile::Small).unwrap(), store.keyspace("b", Profile::Log).unwrap());
    let before = store.view();
    let mut batch = store.batch();
    batch.put(&a, b"k", b"1".as_slice());
    batch.put(&b, b"k", b"2".as_slice());
    assert_eq!(a.get(b"k").unwrap(), None);
    batch.commit(Durability::Synced).unwrap();
    assert_eq!(before.get(&a, b"k").unwrap(), None);
    assert_eq!(store.view().get(&b, b"k").unwrap().unwrap(), "2");
    drop((a, b, before, store));

    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.keyspace("a", Profile::Small).unwrap().get(b"k").unwrap().unwrap(), "1");
    assert_eq!(store.keyspace("b", Profile::Log).unwrap().get(b"k").unwrap().unwrap(), "2");
}

#[test]
fn ranges_are_in_key_order_and_can_be_walked_backwards() {
    let (_folder, store) = open();
    let keyspace = store.keyspace("k", Profile::Log).unwrap();
    let mut batch = store.batch();
    for n in [3u8, 1, 2, 9] {
        batch.put(&keyspace, &[n], vec![n]);
    }
    batch.commit(Durability::Buffered).unwrap();
    keyspace.rotate().unwrap();
    let keys = |range: Range| range.map(|entry| entry.unwrap().0[0]).collect::<Vec<_>>();
    assert_eq!(keys(keyspace.range([2u8]..)), [2, 3, 9]);
    assert_eq!(keyspace.range(..[9u8]).next_back().unwrap().unwrap().1, vec![3u8]);
}

#[test]
fn a_second_opener_is_told_that_the_folder_is_in_use() {
    let (folder, _store) = open();
    let error = Store::open(folder.path()).err().unwrap();
    assert!(matches!(error, OpenError::InUse(_)));
    assert!(error.to_string().contains("is in use by another mqgate process"), "{error}");
}

#[test]
fn a_deleted_keyspace_is_gone_after_a_restart() {
    let (folder, store) = open();
    let keyspace = store.keyspace("gone", Profile::Log).unwrap();
    let mut batch = store.batch();
    batch.put(&keyspace, b"k", b"v".as_slice());
    batch.commit(Durability::Synced).unwrap();
    store.delete_keyspace(keyspace).unwrap();
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    assert!(store.keyspace_names().is_empty());
    assert_eq!(store.keyspace("gone", Profile::Log).unwrap().get(b"k").unwrap(), None);
}

#[test]
fn a_bulk_load_is_durable_at_once() {
    let (folder, store) = open();
    let keyspace = store.keyspace("k", Profile::Log).unwrap();
    let entries = [("a", "1"), ("b", "2")].map(|(key, value)| Ok((key.into(), value.into())));
    keyspace.bulk_load(entries.into_iter()).unwrap();
    assert_eq!(keyspace.get(b"b").unwrap().unwrap(), "2");
    drop((keyspace, store));
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.keyspace("k", Profile::Log).unwrap().range::<&[u8]>(..).count(), 2);
}

/// `fjall` gives a deleted keyspace's number to a new one after a restart, and may then take the
/// new one's name and settings for deleted, too.
#[test]
fn keyspaces_made_after_others_were_deleted_survive_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Vec::new();
    for round in 0..10 {
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(names(&store), kept, "round {round}");
        for n in 0..3 {
            drop(store.keyspace(&format!("{round}-{n}"), Profile::Log).unwrap());
        }
        for n in [2, 1] {
            store.delete_keyspace(store.keyspace(&format!("{round}-{n}"), Profile::Log).unwrap()).unwrap();
        }
        kept.push(format!("{round}-0"));
    }
}

fn names(store: &Store) -> Vec<String> {
    let mut names = store.keyspace_names();
    names.sort();
    names
}

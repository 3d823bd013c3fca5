use super::*;

/// A folder with one entry, in the journal only.
fn with_an_entry() -> tempfile::TempDir {
    let (folder, store) = open();
    put(&store).unwrap();
    folder
}

fn put(store: &Store) -> Result<(), StoreError> {
    let keyspace = store.keyspace("k", Profile::Log).unwrap();
    let mut batch = store.batch();
    batch.put(&keyspace, b"k", b"v".as_slice());
    batch.commit(Durability::Synced)
}

fn refused(folder: &Path, because: &str) {
    let error = Store::open(folder).err().unwrap().to_string();
    assert!(error.contains(because), "{error}");
}

#[test]
fn a_store_without_its_journal_is_refused_until_the_operator_lets_it_go() {
    let folder = with_an_entry();
    let journal = folder.path().join("0.jnl");
    std::fs::remove_file(&journal).unwrap();
    refused(folder.path(), "its journal, with the messages and cursors written last, is missing");
    assert!(!journal.exists());
    std::fs::File::create(&journal).unwrap();
    let store = Store::open(folder.path()).unwrap();
    put(&store).unwrap();
}

#[test]
fn a_store_without_its_tables_or_version_is_refused_and_not_begun_anew() {
    let folder = with_an_entry();
    let (there, away) = (folder.path().join("keyspaces"), folder.path().join("away"));
    std::fs::rename(&there, &away).unwrap();
    refused(folder.path(), "keyspaces is missing in it");
    std::fs::rename(&away, &there).unwrap();
    std::fs::remove_file(folder.path().join("version")).unwrap();
    refused(folder.path(), "version is missing in it");
}

#[test]
fn a_folder_whose_making_was_cut_short_is_made_again() {
    for left in [&["lock"][..], &["lock", "0.jnl"], &["lock", "0.jnl", "version"]] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("keyspaces")).unwrap();
        for name in left {
            std::fs::write(folder.path().join(name), if *name == "0.jnl" { &[0; 4096][..] } else { &[] }).unwrap();
        }
        put(&Store::open(folder.path()).unwrap()).unwrap();
    }
}

#[test]
fn a_synced_commit_fails_once_the_folder_is_removed_or_replaced() {
    for replaced in [false, true] {
        let (folder, store) = open();
        put(&store).unwrap();
        std::fs::remove_dir_all(folder.path()).unwrap();
        let other = replaced.then(|| Store::open(folder.path()).unwrap());
        let error = put(&store).unwrap_err().to_string();
        assert!(error.contains(if replaced { "replaced while in use" } else { "removed or moved while in use" }), "{error}");
        assert!(store.failed().is_some());
        drop(other);
    }
}

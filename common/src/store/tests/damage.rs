use super::*;

const EARLIER: usize = 8;
const WRITES: usize = EARLIER + 1;

/// A journal of synced writes, the last of which is sure to say that those in `earlier` were on the disk.
struct Written {
    folder: tempfile::TempDir,
    journal: PathBuf,
    earlier: std::ops::Range<usize>,
}

fn written() -> Written {
    let (folder, store) = open();
    let keyspace = store.keyspace("k", Profile::Log).unwrap();
    let journal = folder.path().join("0.jnl");
    (0..EARLIER).for_each(|n| write(&store, &keyspace, n));
    let earlier = 20..used(&journal).len() - 4;
    std::thread::sleep(marks::EVERY);
    write(&store, &keyspace, EARLIER);
    drop((keyspace, store));
    std::fs::write(&journal, used(&journal)).unwrap();
    Written { folder, journal, earlier }
}

fn write(store: &Store, keyspace: &Keyspace, n: usize) {
    let mut batch = store.batch();
    batch.put(keyspace, &n.to_be_bytes(), vec![b'v'; 30]);
    batch.commit(Durability::Synced).unwrap();
}

fn used(journal: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(journal).unwrap();
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
    bytes
}

fn entries(store: &Store) -> usize {
    store.keyspace("k", Profile::Log).unwrap().range::<&[u8]>(..).count()
}

#[test]
fn damage_before_what_was_acknowledged_refuses_to_start_and_changes_nothing() {
    let Written { folder, journal, earlier } = written();
    let whole = std::fs::read(&journal).unwrap();
    for at in earlier.step_by(11) {
        for broken in [[0xde, 0xad, 0xbe, 0xef], [0; 4]] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&broken);
            if bytes == whole {
                continue;
            }
            std::fs::write(&journal, &bytes).unwrap();
            let error = Store::open(folder.path()).err().unwrap_or_else(|| panic!("{broken:?} at {at} was not refused")).to_string();
            assert!(error.contains("0.jnl is damaged at byte") && error.contains("truncate -s"), "{error}");
            assert!(std::fs::read(&journal).unwrap() == bytes, "changed after {at}");
        }
    }
}

#[test]
fn a_page_of_zeros_before_what_was_acknowledged_refuses_to_start() {
    let Written { folder, journal, earlier } = written();
    let mut bytes = std::fs::read(&journal).unwrap();
    // Without the store's own first batch.
    let page = 120..earlier.end;
    bytes[page].fill(0);
    std::fs::write(&journal, &bytes).unwrap();
    let error = Store::open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("had been acknowledged"), "{error}");
}

#[test]
fn the_refusal_names_the_command_by_which_the_store_starts_with_what_is_whole() {
    let Written { folder, journal, earlier } = written();
    let mut bytes = std::fs::read(&journal).unwrap();
    let at = earlier.end / 2;
    bytes[at..at + 4].fill(0xff);
    std::fs::write(&journal, &bytes).unwrap();
    let error = Store::open(folder.path()).err().unwrap().to_string();
    let (_, command) = error.split_once("keep a copy of the folder, then: ").unwrap();
    assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    let store = Store::open(folder.path()).unwrap();
    let left = entries(&store);
    assert!(0 < left && left < WRITES, "{left} of {WRITES}");
    write(&store, &store.keyspace("k", Profile::Log).unwrap(), WRITES);
    assert_eq!(entries(&store), left + 1);
}

#[test]
fn damage_to_an_older_journal_refuses_to_start() {
    let Written { folder, journal, .. } = written();
    std::fs::copy(&journal, folder.path().join("1.jnl")).unwrap();
    let mut bytes = std::fs::read(&journal).unwrap();
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();
    let error = Store::open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("0.jnl is damaged") && error.contains("truncate -s 0 '"), "{error}");
}

/// A power cut may leave later pages of what was not synced and lose earlier ones.
#[test]
fn a_hole_in_writes_that_no_sync_had_passed_is_put_aside_and_the_store_starts() {
    let Written { folder, journal, .. } = written();
    let store = Store::open(folder.path()).unwrap();
    let keyspace = store.keyspace("k", Profile::Log).unwrap();
    let synced = used(&journal).len();
    for n in 1..4 {
        let mut batch = store.batch();
        batch.put(&keyspace, &(WRITES + n).to_be_bytes(), vec![b'v'; 30]);
        batch.commit(Durability::Buffered).unwrap();
    }
    drop((keyspace, store));
    let mut bytes = used(&journal);
    bytes[synced + 30..synced + 40].fill(0);
    std::fs::write(&journal, &bytes).unwrap();
    assert_eq!(entries(&Store::open(folder.path()).unwrap()), WRITES);
    assert_eq!(std::fs::read(folder.path().join(format!("0.jnl.torn-at-{synced}"))).unwrap(), bytes[synced..]);
}

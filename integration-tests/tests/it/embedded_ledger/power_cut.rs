//! What a power cut leaves of the journal: everything that a sync had passed, and of the rest anything.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use integration_tests::shim::Syncs;
use rand::RngExt;
use rand::rngs::StdRng;

use super::plan::Tail;

/// Nothing is left but what a sync had passed.
pub(super) fn to_the_last_sync(data: &Path, syncs: &Syncs) {
    let (number, path) = newest(data).expect("the store keeps a journal");
    let synced = syncs.synced_bytes(&format!("{number}.jnl")).expect("a start syncs the journal");
    File::options().write(true).open(path).unwrap().set_len(synced).unwrap();
}

/// Returns how many bytes that no sync had passed were there to be damaged.
pub(super) fn strike(data: &Path, syncs: &Syncs, tail: Tail, random: &mut StdRng) -> u64 {
    let Some((number, path)) = newest(data) else { return 0 };
    let Some(synced) = syncs.synced_bytes(&format!("{number}.jnl")) else { return 0 };
    let journal = File::options().read(true).write(true).open(path).unwrap();
    let end = used_bytes(&journal, synced);
    if end <= synced {
        return 0;
    }
    let from = random.random_range(synced..end);
    match tail {
        Tail::Kept => return 0,
        Tail::Cut => journal.set_len(from).unwrap(),
        Tail::Zeros => journal.write_all_at(&zeros(end - from), from).unwrap(),
        Tail::Hole => journal.write_all_at(&zeros(random.random_range(from..end) - from + 1), from).unwrap(),
        Tail::Garbage => {
            let garbage: Vec<u8> = (from..end).map(|_| random.random()).collect();
            journal.write_all_at(&garbage, from).unwrap();
        }
    }
    end - synced
}

fn zeros(count: u64) -> Vec<u8> {
    vec![0; usize::try_from(count).expect("a write is small")]
}

fn newest(data: &Path) -> Option<(u64, PathBuf)> {
    let journals = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    journals.filter_map(|path| Some((path.file_name()?.to_str()?.strip_suffix(".jnl")?.parse().ok()?, path))).max()
}

/// Where the zeros begin that the journal was made with, from `from` on.
fn used_bytes(journal: &File, from: u64) -> u64 {
    let mut rest = vec![0; usize::try_from(journal.metadata().unwrap().len().saturating_sub(from)).unwrap()];
    journal.read_exact_at(&mut rest, from).unwrap();
    from + rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

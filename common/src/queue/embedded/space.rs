//! Refusing to write before the disk is full.
//!
//! `fjall` takes no write any more, until a restart, once one has met a full disk, be it in the
//! journal, in a flush or in a compaction. So a commit is refused while the disk has less room
//! than it needs: its bytes twice (journal and table), what lies in memory and must still be
//! flushed, and a reserve for the rest. Writing goes on by itself when there is room again.

use crate::store::Store;

const MIN_RESERVE_BYTES: u64 = 4 << 20;
const MAX_RESERVE_BYTES: u64 = 64 << 20;
/// The memtables of all keyspaces; the store's own count only grows when one is deleted unflushed.
const MAX_UNFLUSHED_BYTES: u64 = 48 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Enough,
    Full { free_bytes: u64, needed_bytes: u64 },
}

/// Room for a commit of so many bytes, beside the reserve (`None`: by the size of the disk).
pub(super) fn room(store: &Store, reserve_bytes: Option<u64>, commit_bytes: u64) -> Room {
    match store.free_bytes() {
        Ok((free, total)) => judge(free, reserve_bytes.unwrap_or_else(|| reserve(total)), store.unflushed_bytes(), commit_bytes),
        // A file system that does not tell how full it is will tell when it is.
        Err(_) => Room::Enough,
    }
}

fn reserve(total_bytes: u64) -> u64 {
    (total_bytes / 100).clamp(MIN_RESERVE_BYTES, MAX_RESERVE_BYTES)
}

fn judge(free_bytes: u64, reserve_bytes: u64, unflushed_bytes: u64, commit_bytes: u64) -> Room {
    let needed_bytes = reserve_bytes + unflushed_bytes.min(MAX_UNFLUSHED_BYTES) + 2 * commit_bytes;
    if free_bytes < needed_bytes { Room::Full { free_bytes, needed_bytes } } else { Room::Enough }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_lies_in_memory_keeps_its_room_on_the_disk() {
        assert_eq!(judge(20 * MIB, 4 * MIB, 8 * MIB, MIB), Room::Enough);
        let full = Room::Full { free_bytes: 13 * MIB, needed_bytes: 14 * MIB };
        assert_eq!(judge(13 * MIB, 4 * MIB, 8 * MIB, MIB), full);
    }

    #[test]
    fn the_reserve_follows_the_size_of_the_disk() {
        assert_eq!([64 * MIB, 2048 * MIB, 1 << 40].map(reserve), [4 * MIB, 2048 * MIB / 100, 64 * MIB]);
    }
}

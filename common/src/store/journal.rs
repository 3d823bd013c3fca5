//! Looking at the journals before `fjall` reads them: cutting off what a crash left at the end, and
//! refusing to start over damage to what was acknowledged.
//!
//! `fjall` (3.1) cuts a plainly incomplete last batch off by itself. But it refuses to open when
//! the tail merely looks wrong in some other way (a page in the middle of the last batch that the
//! disk had not written yet: a wrong checksum), believes lengths that it reads in garbage, and
//! elsewhere drops all batches after a damaged one without a word.
//!
//! What is done about damage depends on what is lost by going on without what follows it:
//! - A last write that a crash cut short was never acknowledged: it is cut off.
//! - When a whole batch behind the damage tells that a sync had passed it (`marks`), it was on the
//!   disk once, and so the disk has lost what was acknowledged. Then the store does not start, and
//!   changes nothing. Going on would drop the acknowledged batches behind the damage and give
//!   their offsets to other messages; only the operator can say whether a backup is better. The
//!   same holds for damage anywhere in an older journal, which was synced as a whole.
//! - Otherwise nobody can tell: after a power cut, pages of batches that no sync had passed may be
//!   missing in any order. The store starts, for else each such power cut would need an operator.
//!   What is cut off is put aside and an error is logged. At most the last [`marks::EVERY`] before
//!   the last synced write was acknowledged and can be lost in this way.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use self::format::{READ_BYTES, Whole, batch, has_end, next_start, used_bytes, whole};

mod format;

/// Why the journals are not to be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(
        "its journal {journal} is damaged at byte {at}: the {bytes} bytes from there on had been acknowledged, the disk has lost or \
         changed a part of them. Nothing was changed. Restore the folder from a backup; or, to start without the messages and cursors in \
         those bytes, keep a copy of the folder, then: {cut}"
    )]
    Damaged { journal: String, at: u64, bytes: u64, cut: String },
}

/// Checks all journals of the folder, and cuts the newest after its last whole batch. The caller holds the lock.
pub(super) fn mend(folder: &Path) -> Result<(), JournalError> {
    let journals = all(folder)?;
    for (n, path) in journals.iter().enumerate() {
        let newest = n + 1 == journals.len();
        let mut file = OpenOptions::new().read(true).write(newest).open(path)?;
        let whole = whole(BufReader::with_capacity(READ_BYTES, &file))?;
        file.seek(SeekFrom::Start(whole.bytes))?;
        let tail = whole.bytes..whole.bytes + used_bytes(BufReader::with_capacity(READ_BYTES, &file))?;
        if tail.is_empty() {
            continue;
        }
        if !newest || was_synced(&file, &whole, tail.end)? {
            return Err(damaged(&whole, tail.end, &journals[n..]));
        }
        cut(path, &mut file, tail.start, tail.end - tail.start)?;
    }
    Ok(())
}

/// Whether the folder's journals hold nothing, or none are there.
pub(super) fn are_blank(folder: &Path) -> io::Result<bool> {
    for path in all(folder)? {
        if used_bytes(BufReader::with_capacity(READ_BYTES, File::open(path)?))? > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// By age.
pub(super) fn all(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut journals: Vec<(u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        journals.extend(number.map(|number| (number, path)));
    }
    journals.sort();
    Ok(journals.into_iter().map(|(_, path)| path).collect())
}

/// Whether a whole batch behind the damage knows of a sync after it: of one that had passed a
/// batch younger than the last whole one before the damage, or a whole one behind it.
fn was_synced(file: &File, whole: &Whole, end: u64) -> io::Result<bool> {
    let mut at = whole.bytes;
    let mut lowest_behind = u64::MAX;
    while let Some(before) = next_start(between(file, at, end)?)? {
        at += before;
        let mut journal = between(file, at, end)?;
        let began = at;
        while let Some(batch) = batch(&mut journal)? {
            lowest_behind = lowest_behind.min(batch.number);
            // A mark that is not below its batch's number says that the number is damaged.
            let mark = batch.mark.filter(|synced| *synced < batch.number);
            if mark.is_some_and(|synced| synced >= lowest_behind || whole.last_number.is_some_and(|last| synced > last)) {
                return Ok(true);
            }
            at += batch.bytes;
        }
        if at == began {
            at += 1;
        }
    }
    Ok(false)
}

fn between(mut file: &File, from: u64, end: u64) -> io::Result<impl BufRead> {
    file.seek(SeekFrom::Start(from))?;
    Ok(BufReader::with_capacity(READ_BYTES, file).take(end.saturating_sub(from)))
}

/// Later journals must not be replayed over the gap.
fn damaged(whole: &Whole, end: u64, from: &[PathBuf]) -> JournalError {
    let sizes = std::iter::once(whole.bytes).chain(std::iter::repeat(0));
    let cuts: Vec<_> = from.iter().zip(sizes).map(|(path, bytes)| format!("truncate -s {bytes} '{}'", path.display())).collect();
    let journal = from.first().map(|path| path.display().to_string()).unwrap_or_default();
    JournalError::Damaged { journal, at: whole.bytes, bytes: end - whole.bytes, cut: cuts.join(" && ") }
}

fn cut(path: &Path, file: &mut File, at: u64, bytes: u64) -> io::Result<()> {
    if has_end(between(file, at, at + bytes)?)? {
        let kept = keep(path, file, at, bytes)?;
        tracing::error!(
            journal = %path.display(), at, bytes, kept = %kept.display(),
            "the journal is broken before its end; everything from there on is put aside. After a power cut that is what had not been \
             acknowledged; otherwise the disk has lost data that had, just before the stop: then check the disk, and restore a backup or \
             let the senders of that time send again"
        );
    } else {
        tracing::warn!(
            journal = %path.display(), at, bytes,
            "an incomplete last write is cut off the journal; a crash or power cut left it, and it was not acknowledged"
        );
    }
    file.set_len(at)?;
    file.sync_all()
}

/// Copies what is about to be cut off into a file beside the journal.
fn keep(journal: &Path, file: &mut File, from: u64, bytes: u64) -> io::Result<PathBuf> {
    let kept = journal.with_extension(format!("jnl.torn-at-{from}"));
    file.seek(SeekFrom::Start(from))?;
    let mut copy = File::create(&kept)?;
    io::copy(&mut file.take(bytes), &mut copy)?;
    copy.sync_all()?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn journals_are_taken_in_the_order_of_their_numbers_and_what_was_put_aside_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(all(folder.path()).unwrap().is_empty());
        for name in ["2.jnl", "10.jnl", "9.jnl", "11.jnl.torn-at-5", "lock"] {
            File::create(folder.path().join(name)).unwrap();
        }
        assert_eq!(all(folder.path()).unwrap(), ["2.jnl", "9.jnl", "10.jnl"].map(|name| folder.path().join(name)));
    }
}

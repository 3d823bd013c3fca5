//! Cutting off what a crash left at the end of the journal, before `fjall` reads it.
//!
//! `fjall` (3.1) cuts a plainly incomplete last batch off by itself. But it refuses to open when
//! the tail merely looks wrong in some other way (a page in the middle of the last batch that the
//! disk had not written yet: a wrong checksum), and believes lengths that it reads in garbage.
//! None of that was ever acknowledged: a batch that was synced is whole, and so is all before it.
//!
//! The format, as of `fjall` 3, numbers in little endian:
//! ```text
//! start:  1 | items u32 | sequence number u64
//! item:   2 | type u8 | compression u8 | keyspace u64 | key length u16 | value length u32 | stored length u32 | key | value
//! clear:  4 | keyspace u64                                     (counts as an item)
//! end:    3 | xxh3 of the items' bytes u64 | "FJL" 3
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

const MAGIC: [u8; 4] = [b'F', b'J', b'L', 3];
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
/// Of an item, between its tag and its key.
const ITEM_HEAD_BYTES: usize = 1 + 1 + 8 + 2 + 4 + 4;
const READ_BYTES: usize = 64 << 10;
static ZEROS: [u8; READ_BYTES] = [0; READ_BYTES];

/// Cuts the newest journal of the folder after its last whole batch. The caller holds the lock.
pub(super) fn cut_torn_tail(folder: &Path) -> io::Result<()> {
    let Some(path) = newest(folder)? else { return Ok(()) };
    let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
    let whole_bytes = whole(BufReader::with_capacity(READ_BYTES, &file))?;
    file.seek(SeekFrom::Start(whole_bytes))?;
    let (used_bytes, ends_in_it) = look_behind(BufReader::with_capacity(READ_BYTES, &file))?;
    if used_bytes == 0 {
        return Ok(());
    }
    if ends_in_it {
        let kept = keep(&path, &mut file, whole_bytes, used_bytes)?;
        tracing::error!(
            journal = %path.display(), at = whole_bytes, bytes = used_bytes, kept = %kept.display(),
            "the journal is broken before its end; everything from there on is put aside. After a power cut that is what had not been \
             acknowledged; otherwise the disk has lost data that had"
        );
    } else {
        tracing::info!(journal = %path.display(), bytes = used_bytes, "an incomplete last write is cut off the journal; it was not acknowledged");
    }
    file.set_len(whole_bytes)?;
    file.sync_all()
}

fn newest(folder: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        if let Some(number) = number
            && newest.as_ref().is_none_or(|(other, _)| number > *other)
        {
            newest = Some((number, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// How far the journal consists of whole batches, in bytes.
fn whole(mut journal: impl BufRead) -> io::Result<u64> {
    let mut at = 0;
    loop {
        match batch(&mut journal) {
            Ok(Some(bytes)) => at += bytes,
            Ok(None) => return Ok(at),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(at),
            Err(e) => return Err(e),
        }
    }
}

/// The length of one whole batch; `None` if what comes is none.
fn batch(journal: &mut impl BufRead) -> io::Result<Option<u64>> {
    let [START, count @ .., _, _, _, _, _, _, _, _] = array::<13>(journal)? else { return Ok(None) };
    let mut sum = Xxh3::default();
    let mut bytes = 13;
    for _ in 0..u32::from_le_bytes(count) {
        match item(journal, &mut sum)? {
            Some(item) => bytes += item,
            None => return Ok(None),
        }
    }
    let [END, end @ ..] = array::<13>(journal)? else { return Ok(None) };
    let good = end[..8] == sum.digest().to_le_bytes() && end[8..] == MAGIC;
    Ok(good.then_some(bytes + 13))
}

fn item(journal: &mut impl BufRead, sum: &mut Xxh3) -> io::Result<Option<u64>> {
    let [tag] = array::<1>(journal)?;
    sum.update(&[tag]);
    match tag {
        CLEAR => {
            sum.update(&array::<8>(journal)?);
            Ok(Some(9))
        }
        ITEM => {
            let head = array::<ITEM_HEAD_BYTES>(journal)?;
            sum.update(&head);
            let key = u16::from_le_bytes([head[10], head[11]]);
            let stored = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
            let body = u64::from(key) + u64::from(stored);
            pass(journal, body, sum)?;
            Ok(Some(1 + head.len() as u64 + body))
        }
        _ => Ok(None),
    }
}

/// Reads on without keeping what is read, so that a length in garbage costs no memory.
fn pass(journal: &mut impl BufRead, mut bytes: u64, sum: &mut Xxh3) -> io::Result<()> {
    while bytes > 0 {
        let buffer = journal.fill_buf()?;
        if buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let taken = buffer.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        sum.update(&buffer[..taken]);
        journal.consume(taken);
        bytes -= taken as u64;
    }
    Ok(())
}

fn array<const N: usize>(journal: &mut impl Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    journal.read_exact(&mut array)?;
    Ok(array)
}

/// How far it is from here to the last byte that is not zero (`fjall` makes journals longer than
/// they are), and whether some batch ends on the way.
fn look_behind(mut journal: impl BufRead) -> io::Result<(u64, bool)> {
    let (mut at, mut used, mut window, mut ends) = (0, 0, [0; 4], false);
    loop {
        let buffer = journal.fill_buf()?;
        if buffer.is_empty() {
            return Ok((used, ends));
        }
        let taken = buffer.len();
        // The common case by far, and one comparison.
        if ZEROS.get(..taken) == Some(buffer) {
            at += taken as u64;
            window = [0; 4];
        } else {
            for &byte in buffer {
                at += 1;
                window.rotate_left(1);
                window[3] = byte;
                ends |= window == MAGIC;
                if byte != 0 {
                    used = at;
                }
            }
        }
        journal.consume(taken);
    }
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

    fn item(key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut item = vec![ITEM, 0, 0];
        item.extend(7u64.to_le_bytes());
        item.extend(u16::try_from(key.len()).unwrap().to_le_bytes());
        item.extend([u32::try_from(value.len()).unwrap().to_le_bytes(); 2].concat());
        [&item, key, value].concat()
    }

    fn batch_of(items: &[Vec<u8>]) -> Vec<u8> {
        let body = items.concat();
        let mut batch = vec![START];
        batch.extend(u32::try_from(items.len()).unwrap().to_le_bytes());
        batch.extend(99u64.to_le_bytes());
        batch.extend(&body);
        batch.push(END);
        batch.extend(xxhash_rust::xxh3::xxh3_64(&body).to_le_bytes());
        batch.extend(MAGIC);
        batch
    }

    fn whole_bytes(journal: &[u8]) -> usize {
        usize::try_from(whole(journal).unwrap()).unwrap()
    }

    #[test]
    fn whole_batches_are_counted_and_what_follows_is_not() {
        let clear = [&[CLEAR][..], &7u64.to_le_bytes()].concat();
        let good = [batch_of(&[item(b"k", b"value"), clear]), batch_of(&[item(b"", b"")])].concat();
        assert_eq!(whole_bytes(&good), good.len());
        for tail in [&[][..], &[0; 40], &[START], &[ITEM; 40], &[0xff; 40], b"FJL\x03"] {
            assert_eq!(whole_bytes(&[&good[..], tail].concat()), good.len(), "{tail:?}");
        }
    }

    #[test]
    fn a_changed_byte_in_a_batch_ends_what_is_whole() {
        let (first, second) = (batch_of(&[item(b"k", b"value")]), batch_of(&[item(b"key", b"other")]));
        for changed in 13..second.len() {
            let mut second = second.clone();
            second[changed] ^= 0x55;
            assert_eq!(whole_bytes(&[&first[..], &second].concat()), first.len(), "byte {changed}");
        }
    }

    #[test]
    fn a_length_in_garbage_is_not_believed() {
        let mut huge = batch_of(&[item(b"k", b"value")]);
        let stored_len = 13 + 1 + ITEM_HEAD_BYTES - 4;
        huge[stored_len..stored_len + 4].fill(0xff);
        assert_eq!(whole_bytes(&huge), 0);
    }

    #[test]
    fn zeros_at_the_end_are_no_tail() {
        assert_eq!(look_behind(BufReader::with_capacity(READ_BYTES, &[0; 3 * READ_BYTES][..])).unwrap(), (0, false));
        let tail = [&[0; READ_BYTES][..], b"x", &MAGIC, &[0; 9]].concat();
        assert_eq!(look_behind(BufReader::with_capacity(READ_BYTES, &tail[..])).unwrap(), (READ_BYTES as u64 + 5, true));
    }

    #[test]
    fn the_newest_journal_is_the_one_with_the_highest_number() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest(folder.path()).unwrap(), None);
        for name in ["2.jnl", "10.jnl", "9.jnl", "11.jnl.torn-at-5", "lock"] {
            File::create(folder.path().join(name)).unwrap();
        }
        assert_eq!(newest(folder.path()).unwrap(), Some(folder.path().join("10.jnl")));
    }
}

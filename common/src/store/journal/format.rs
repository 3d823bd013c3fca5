//! The journals' format, as of `fjall` 3. Numbers are in little endian:
//! ```text
//! start:  1 | items u32 | sequence number u64
//! item:   2 | type u8 | compression u8 | keyspace u64 | key length u16 | value length u32 | stored length u32 | key | value
//! clear:  4 | keyspace u64                                     (counts as an item)
//! end:    3 | xxh3 of the items' bytes u64 | "FJL" 3
//! ```

use std::io::{self, BufRead, Read};

use xxhash_rust::xxh3::Xxh3;

use crate::store::marks;

const MAGIC: [u8; 4] = [b'F', b'J', b'L', 3];
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
/// Of the kinds of items.
const MAX_TYPE: u8 = 4;
/// Of an item, between its tag and its key.
const ITEM_HEAD_BYTES: usize = 1 + 1 + 8 + 2 + 4 + 4;
pub(super) const READ_BYTES: usize = 64 << 10;
static ZEROS: [u8; READ_BYTES] = [0; READ_BYTES];
/// Far more than lies between two batches. The number of a batch is not under its checksum.
const MAX_NUMBERS_BETWEEN: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) bytes: u64,
    pub(super) number: u64,
    /// What it says about the batches before it (see `marks`).
    pub(super) mark: Option<u64>,
}

/// How far a journal consists of whole batches with growing numbers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) bytes: u64,
    /// `None` if there is none, or if it cannot be trusted because the next one is lower.
    pub(super) last_number: Option<u64>,
}

pub(super) fn whole(mut journal: impl BufRead) -> io::Result<Whole> {
    let mut whole = Whole::default();
    while let Some(batch) = batch(&mut journal)? {
        match whole.last_number {
            Some(last) if batch.number <= last => return Ok(Whole { last_number: None, ..whole }),
            Some(last) if batch.number - last > MAX_NUMBERS_BETWEEN => break,
            _ => {}
        }
        whole = Whole { bytes: whole.bytes + batch.bytes, last_number: Some(batch.number) };
    }
    Ok(whole)
}

/// `None` if what comes is no whole batch.
pub(super) fn batch(journal: &mut impl BufRead) -> io::Result<Option<Batch>> {
    match read_batch(journal) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read,
    }
}

fn read_batch(journal: &mut impl BufRead) -> io::Result<Option<Batch>> {
    let [START, count @ .., n0, n1, n2, n3, n4, n5, n6, n7] = array::<13>(journal)? else { return Ok(None) };
    let mut items = Items::default();
    for _ in 0..u32::from_le_bytes(count) {
        if !items.read(journal)? {
            return Ok(None);
        }
    }
    let [END, end @ ..] = array::<13>(journal)? else { return Ok(None) };
    let good = end[..8] == items.sum.digest().to_le_bytes() && end[8..] == MAGIC;
    let number = u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]);
    Ok(good.then_some(Batch { bytes: 13 + items.bytes + 13, number, mark: items.mark }))
}

#[derive(Default)]
struct Items {
    sum: Xxh3,
    bytes: u64,
    mark: Option<u64>,
}

impl Items {
    /// Whether an item came.
    fn read(&mut self, journal: &mut impl BufRead) -> io::Result<bool> {
        let [tag] = array::<1>(journal)?;
        self.add(&[tag]);
        match tag {
            CLEAR => {
                self.add(&array::<8>(journal)?);
                Ok(true)
            }
            ITEM => {
                let head = array::<ITEM_HEAD_BYTES>(journal)?;
                self.add(&head);
                let key = usize::from(u16::from_le_bytes([head[10], head[11]]));
                let stored = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
                self.body(journal, key, stored)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn body(&mut self, journal: &mut impl BufRead, key: usize, stored: u32) -> io::Result<()> {
        if (key, stored) == (marks::KEY.len(), 8) {
            let (key, value) = (array::<{ marks::KEY.len() }>(journal)?, array::<8>(journal)?);
            self.add(&key);
            self.add(&value);
            if key == marks::KEY {
                self.mark = Some(u64::from_be_bytes(value));
            }
            return Ok(());
        }
        self.pass(journal, key as u64 + u64::from(stored))
    }

    /// Reads on without keeping what is read, so that a length in garbage costs no memory.
    fn pass(&mut self, journal: &mut impl BufRead, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let buffer = journal.fill_buf()?;
            if buffer.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let taken = buffer.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            self.add(&buffer[..taken]);
            journal.consume(taken);
            bytes -= taken as u64;
        }
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) {
        self.sum.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

fn array<const N: usize>(journal: &mut impl Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    journal.read_exact(&mut array)?;
    Ok(array)
}

/// How far it is to where a batch may begin, if there is such a place.
pub(super) fn next_start(journal: impl BufRead) -> io::Result<Option<u64>> {
    const SEEN: u64 = size_of::<u128>() as u64;
    let seen = find(journal, |last| {
        let bytes = last.to_be_bytes();
        // The head of a batch, and of its first item as far as it is always the same: no compression.
        bytes[0] == START && bytes[13] == ITEM && bytes[14] <= MAX_TYPE && bytes[15] == 0
    })?;
    Ok(seen.map(|seen| seen.saturating_sub(SEEN)))
}

/// Whether something looks like the end of a batch.
pub(super) fn has_end(journal: impl BufRead) -> io::Result<bool> {
    let magic = u128::from(u32::from_be_bytes(MAGIC));
    find(journal, |last| last & u128::from(u32::MAX) == magic).map(|found| found.is_some())
}

/// How far it is to just behind the first place whose last 16 bytes are what is looked for.
fn find(mut journal: impl BufRead, is_it: impl Fn(u128) -> bool) -> io::Result<Option<u64>> {
    let (mut at, mut last) = (0, 0);
    loop {
        let buffer = journal.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let taken = buffer.len();
        for &byte in buffer {
            at += 1;
            last = last << 8 | u128::from(byte);
            if is_it(last) {
                return Ok(Some(at));
            }
        }
        journal.consume(taken);
    }
}

/// How far it is from here to the last byte that is not zero: `fjall` makes journals longer than they are.
pub(super) fn used_bytes(mut journal: impl BufRead) -> io::Result<u64> {
    let (mut at, mut used) = (0, 0);
    loop {
        let buffer = journal.fill_buf()?;
        if buffer.is_empty() {
            return Ok(used);
        }
        let taken = buffer.len();
        // The common case by far, and one comparison.
        if ZEROS.get(..taken) != Some(buffer)
            && let Some(last) = buffer.iter().rposition(|byte| *byte != 0)
        {
            used = at + last as u64 + 1;
        }
        at += taken as u64;
        journal.consume(taken);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::BufReader;

    use super::*;

    fn item(key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut item = vec![ITEM, 0, 0];
        item.extend(7u64.to_le_bytes());
        item.extend(u16::try_from(key.len()).unwrap().to_le_bytes());
        item.extend([u32::try_from(value.len()).unwrap().to_le_bytes(); 2].concat());
        [&item, key, value].concat()
    }

    fn batch_of(items: &[Vec<u8>]) -> Vec<u8> {
        numbered(99, items)
    }

    fn numbered(number: u64, items: &[Vec<u8>]) -> Vec<u8> {
        let body = items.concat();
        let mut batch = vec![START];
        batch.extend(u32::try_from(items.len()).unwrap().to_le_bytes());
        batch.extend(number.to_le_bytes());
        batch.extend(&body);
        batch.push(END);
        batch.extend(xxhash_rust::xxh3::xxh3_64(&body).to_le_bytes());
        batch.extend(MAGIC);
        batch
    }

    fn whole_bytes(journal: &[u8]) -> usize {
        usize::try_from(whole(journal).unwrap().bytes).unwrap()
    }

    #[test]
    fn whole_batches_are_counted_and_what_follows_is_not() {
        let clear = [&[CLEAR][..], &7u64.to_le_bytes()].concat();
        let good = [batch_of(&[item(b"k", b"value"), clear]), numbered(100, &[item(b"", b"")])].concat();
        assert_eq!(whole_bytes(&good), good.len());
        for tail in [&[][..], &[0; 40], &[START], &[ITEM; 40], &[0xff; 40], b"FJL\x03"] {
            assert_eq!(whole_bytes(&[&good[..], tail].concat()), good.len(), "{tail:?}");
        }
    }

    #[test]
    fn a_changed_byte_in_a_batch_ends_what_is_whole() {
        let (first, second) = (batch_of(&[item(b"k", b"value")]), numbered(100, &[item(b"key", b"other")]));
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

    /// The number is not under the checksum, and records with a wrong one would be lost without a word.
    #[test]
    fn a_batch_with_a_number_that_cannot_follow_ends_what_is_whole() {
        let first = batch_of(&[item(b"k", b"value")]);
        for number in [0, 98, 99, 99 + MAX_NUMBERS_BETWEEN + 1, u64::MAX] {
            assert_eq!(whole_bytes(&[&first[..], &numbered(number, &[item(b"k", b"")])].concat()), first.len(), "{number}");
        }
    }

    #[test]
    fn a_mark_is_read_with_its_batch() {
        let marked = numbered(5, &[item(b"k", b"value"), item(&marks::KEY, &4u64.to_be_bytes())]);
        let read = batch(&mut &marked[..]).unwrap().unwrap();
        assert_eq!(read, Batch { bytes: marked.len() as u64, number: 5, mark: Some(4) });
        let other = numbered(5, &[item(&[b'x'; marks::KEY.len()], &4u64.to_be_bytes())]);
        assert_eq!(batch(&mut &other[..]).unwrap().unwrap().mark, None);
    }

    #[test]
    fn zeros_at_the_end_are_not_used_and_what_is_looked_for_is_found_across_buffers() {
        fn read(bytes: &[u8]) -> BufReader<&[u8]> {
            BufReader::with_capacity(READ_BYTES, bytes)
        }
        let zeros = [0; 3 * READ_BYTES];
        assert_eq!(used_bytes(read(&zeros[..])).unwrap(), 0);
        assert!(!has_end(read(&zeros[..])).unwrap());
        assert_eq!(next_start(read(&zeros[..])).unwrap(), None);
        let batch = batch_of(&[item(b"k", b"value")]);
        for before in [0, 1, READ_BYTES - 9, 2 * READ_BYTES - batch.len() + 2] {
            let tail = [&zeros[..before], &batch, &[0; 9]].concat();
            assert_eq!(used_bytes(read(&tail[..])).unwrap(), (before + batch.len()) as u64);
            assert!(has_end(read(&tail[..])).unwrap());
            assert_eq!(next_start(read(&tail[..])).unwrap(), Some(before as u64));
        }
    }
}

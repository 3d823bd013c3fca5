//! What the store holds: a chunk of consecutive records of one partition, all of one commit.
//!
//! A chunk is stored under topic number, partition and its *last* offset, so that the first entry
//! at or after an offset is the chunk that holds it. Its head carries the greatest timestamp and
//! the bytes of its whole run so far (of this partition in this segment): the first makes a time
//! index that costs nothing to write, both spare reading the run again at start.

use std::ops::RangeInclusive;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::codec::Undecodable;
use crate::record::TimestampMs;

/// A partition of the log as keys name it. Numbers of topics are never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) topic: u32,
    pub(super) partition: u32,
}

pub(super) const KEY_BYTES: usize = 16;
pub(super) type Key = [u8; KEY_BYTES];

impl Place {
    pub(super) fn key(self, last: u64) -> Key {
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(&self.topic.to_be_bytes());
        key[4..8].copy_from_slice(&self.partition.to_be_bytes());
        key[8..].copy_from_slice(&last.to_be_bytes());
        key
    }

    /// Every chunk that holds an offset of `from..=last`, where `last` is the last of a chunk.
    pub(super) fn keys(self, from: u64, last: u64) -> RangeInclusive<Key> {
        self.key(from)..=self.key(last)
    }

    /// The place and last offset that a key names.
    pub(super) fn of_key(mut key: &[u8]) -> Result<(Self, u64), Undecodable> {
        let mut number = || key.try_get_u32().map_err(|_| Undecodable);
        let place = Self { topic: number()?, partition: number()? };
        Ok((place, key.try_get_u64().map_err(|_| Undecodable)?))
    }
}

/// Of a run, up to and with this chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunSoFar {
    pub(super) max_timestamp: TimestampMs,
    pub(super) bytes: u64,
}

const HEAD_BYTES: usize = 4 + 8 + 8;
const PER_RECORD_BYTES: usize = 4;

pub(super) fn encode<'a>(records: impl ExactSizeIterator<Item = &'a Bytes> + Clone, so_far: RunSoFar) -> Bytes {
    let body: usize = records.clone().map(|record| PER_RECORD_BYTES + record.len()).sum();
    let mut out = BytesMut::with_capacity(HEAD_BYTES + body);
    out.put_u32_le(u32::try_from(records.len()).expect("a commit is bounded in records"));
    out.put_i64_le(so_far.max_timestamp);
    out.put_u64_le(so_far.bytes);
    for record in records {
        out.put_u32_le(u32::try_from(record.len()).expect("a record is at most MAX_RECORD_BYTES long"));
        out.put_slice(record);
    }
    out.freeze()
}

/// A chunk as it was stored.
pub(super) struct Chunk {
    count: u32,
    last: u64,
    pub(super) so_far: RunSoFar,
    body: Bytes,
}

impl Chunk {
    pub(super) fn decode(last: u64, mut value: Bytes) -> Result<Self, Undecodable> {
        if value.len() < HEAD_BYTES {
            return Err(Undecodable);
        }
        let count = value.get_u32_le();
        let so_far = RunSoFar { max_timestamp: value.get_i64_le(), bytes: value.get_u64_le() };
        let chunk = Self { count, last, so_far, body: value };
        if count == 0 || u64::from(count) > last + 1 { Err(Undecodable) } else { Ok(chunk) }
    }

    pub(super) fn base(&self) -> u64 {
        self.last + 1 - u64::from(self.count)
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Offset and bytes of each record. The bytes are slices of the chunk, or of a whole block of
    /// the store: copy what is to be kept.
    pub(super) fn records(self) -> impl Iterator<Item = Result<(u64, Bytes), Undecodable>> {
        let (base, mut body) = (self.base(), self.body);
        (0..u64::from(self.count)).map(move |n| {
            let len = body.try_get_u32_le().map_err(|_| Undecodable)? as usize;
            if len > body.len() { Err(Undecodable) } else { Ok((base + n, body.split_to(len))) }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_chunk_numbers_its_records() {
        let records = ["a", "", "ccc"].map(Bytes::from);
        let so_far = RunSoFar { max_timestamp: -5, bytes: 99 };
        let chunk = Chunk::decode(12, encode(records.iter(), so_far)).unwrap();
        assert_eq!((chunk.base(), chunk.last(), chunk.so_far), (10, 12, so_far));
        let read: Vec<_> = chunk.records().map(Result::unwrap).collect();
        assert_eq!(read, [(10, "a".into()), (11, "".into()), (12, "ccc".into())]);
    }

    #[test]
    fn keys_sort_by_topic_partition_and_offset() {
        let place = |topic, partition| Place { topic, partition };
        let keys = [place(1, 0).key(300), place(1, 1).key(2), place(2, 0).key(0), place(256, 0).key(0)];
        assert!(keys.is_sorted());
        assert_eq!(Place::of_key(&keys[0]), Ok((place(1, 0), 300)));
        assert_eq!(Place::of_key(b"short"), Err(Undecodable));
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let good = encode([Bytes::from("a")].iter(), RunSoFar { max_timestamp: 0, bytes: 0 });
        assert!(Chunk::decode(0, good.slice(..10)).is_err());
        assert!(Chunk::decode(0, encode([].iter(), RunSoFar { max_timestamp: 0, bytes: 0 })).is_err());
        let cut = Chunk::decode(0, good.slice(..good.len() - 1)).unwrap();
        assert_eq!(cut.records().next(), Some(Err(Undecodable)));
    }
}

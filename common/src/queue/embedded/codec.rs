//! A record's bytes. They are made once, in the producer's thread, and read back as slices of one
//! buffer: no copy per field.
//!
//! ```text
//! timestamp i64 | key length + 1, or 0 for none u32 | value length + 1, or 0 u32 | headers u32
//! (name length u32, value length u32) per header | key | value | (name, value) per header
//! ```
//! All numbers are little endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use bytestring::ByteString;

use crate::record::{Header, Payload, TimestampMs};

/// Bytes of a record that are there whatever it carries.
const FIXED_BYTES: usize = 8 + 4 + 4 + 4;
const PER_HEADER_BYTES: usize = 8;

/// The stored bytes make no sense. They are checked against a sum by the store, so this is a
/// fault of the program or of another version's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stored record cannot be decoded")]
pub(super) struct Undecodable;

pub(super) fn encode(timestamp: TimestampMs, payload: &Payload) -> Bytes {
    let mut out = BytesMut::with_capacity(encoded_len(payload));
    out.put_i64_le(timestamp);
    out.put_u32_le(optional_len(payload.key.as_ref()));
    out.put_u32_le(optional_len(payload.value.as_ref()));
    out.put_u32_le(len(payload.headers.len()));
    for header in &payload.headers {
        out.put_u32_le(len(header.name.len()));
        out.put_u32_le(len(header.value.len()));
    }
    out.put_slice(payload.key.as_deref().unwrap_or_default());
    out.put_slice(payload.value.as_deref().unwrap_or_default());
    for header in &payload.headers {
        out.put_slice(header.name.as_bytes());
        out.put_slice(&header.value);
    }
    out.freeze()
}

pub(super) fn encoded_len(payload: &Payload) -> usize {
    FIXED_BYTES + PER_HEADER_BYTES * payload.headers.len() + payload.size_bytes()
}

pub(super) fn timestamp(record: &[u8]) -> Result<TimestampMs, Undecodable> {
    let bytes = record.first_chunk().ok_or(Undecodable)?;
    Ok(TimestampMs::from_le_bytes(*bytes))
}

pub(super) fn decode(record: &Bytes) -> Result<(TimestampMs, Payload), Undecodable> {
    let mut lengths = record.as_ref();
    let timestamp = lengths.try_get_i64_le().map_err(|_| Undecodable)?;
    let mut number = || lengths.try_get_u32_le().map_err(|_| Undecodable);
    let (key_len, value_len, count) = (number()?, number()?, number()? as usize);
    let table = FIXED_BYTES + PER_HEADER_BYTES * count;
    let mut data = Data { record, at: table };
    let key = data.optional(key_len)?;
    let value = data.optional(value_len)?;
    let mut lengths = record.get(FIXED_BYTES..table).ok_or(Undecodable)?;
    let mut headers = Vec::with_capacity(count);
    for _ in 0..count {
        let name = data.take(lengths.get_u32_le())?;
        let name = ByteString::try_from(name).map_err(|_| Undecodable)?;
        headers.push(Header { name, value: data.take(lengths.get_u32_le())? });
    }
    Ok((timestamp, Payload { key, value, headers }))
}

struct Data<'a> {
    record: &'a Bytes,
    at: usize,
}

impl Data<'_> {
    fn take(&mut self, len: u32) -> Result<Bytes, Undecodable> {
        let end = self.at + len as usize;
        if end > self.record.len() {
            return Err(Undecodable);
        }
        let taken = self.record.slice(self.at..end);
        self.at = end;
        Ok(taken)
    }

    fn optional(&mut self, len: u32) -> Result<Option<Bytes>, Undecodable> {
        len.checked_sub(1).map(|len| self.take(len)).transpose()
    }
}

fn optional_len(field: Option<&Bytes>) -> u32 {
    field.map_or(0, |bytes| len(bytes.len() + 1))
}

fn len(len: usize) -> u32 {
    u32::try_from(len).expect("a record is at most MAX_RECORD_BYTES long, which is checked before it is encoded")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn payloads() -> impl Strategy<Value = Payload> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        let headers = proptest::collection::vec(("[a-z-]{0,9}", bytes()), 0..5);
        (proptest::option::of(bytes()), proptest::option::of(bytes()), headers).prop_map(|(key, value, headers)| Payload {
            key,
            value,
            headers: headers.into_iter().map(|(name, value)| Header { name: name.into(), value }).collect(),
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back_the_same(time in any::<i64>(), payload in payloads()) {
            let record = encode(time, &payload);
            prop_assert_eq!(record.len(), encoded_len(&payload));
            prop_assert_eq!(timestamp(&record).unwrap(), time);
            prop_assert_eq!(decode(&record).unwrap(), (time, payload));
        }

        #[test]
        fn a_cut_record_is_refused_and_never_a_panic(payload in payloads(), cut in any::<proptest::sample::Index>()) {
            let record = encode(7, &payload);
            let cut = cut.index(record.len());
            prop_assert_eq!(decode(&record.slice(..cut)), Err(Undecodable));
        }
    }

    #[test]
    fn absent_and_empty_are_not_the_same() {
        let empty = Payload { key: Some(Bytes::new()), value: Some(Bytes::new()), headers: Vec::new() };
        assert_eq!(decode(&encode(0, &empty)).unwrap().1, empty);
        assert_eq!(decode(&encode(0, &Payload::default())).unwrap().1, Payload::default());
    }
}

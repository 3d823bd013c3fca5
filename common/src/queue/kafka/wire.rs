//! How many bytes a message has on its way to Kafka.

use crate::record::Payload;

/// A batch before its first record (record batch format, version 2).
const BATCH_HEAD_BYTES: usize = 61;
/// Attributes, and timestamp and offset relative to the batch's, of its first record.
const FIRST_RECORD_BYTES: usize = 3;

/// In a batch of its own, not compressed: what a topic's `max.message.bytes` bounds.
pub(super) fn alone_bytes(payload: &Payload) -> usize {
    let field = |len: usize| varint_bytes(len) + len;
    // "No key" and "no value" are written as a length of -1, in one byte.
    let optional = |value: Option<&bytes::Bytes>| value.map_or(1, |value| field(value.len()));
    let headers: usize = payload.headers.iter().map(|header| field(header.name.len()) + field(header.value.len())).sum();
    let record = FIRST_RECORD_BYTES
        + optional(payload.key.as_ref())
        + optional(payload.value.as_ref())
        + varint_bytes(payload.headers.len())
        + headers;
    BATCH_HEAD_BYTES + varint_bytes(record) + record
}

/// Of a number in zigzag encoding, seven bits a byte.
fn varint_bytes(number: usize) -> usize {
    let bits = usize::BITS - number.leading_zeros() + 1;
    usize::try_from(bits.div_ceil(7)).expect("ten at most")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Header;

    #[test]
    fn lengths_take_as_many_bytes_as_in_zigzag() {
        for (number, bytes) in [(0, 1), (63, 1), (64, 2), (8_191, 2), (8_192, 3), (1 << 20, 4)] {
            assert_eq!(varint_bytes(number), bytes, "{number}");
        }
    }

    #[test]
    fn a_message_alone_has_its_fields_and_its_frame() {
        assert_eq!(alone_bytes(&Payload::default()), 61 + 1 + 3 + 1 + 1 + 1);
        let headers = vec![Header { name: "ab".into(), value: "c".into() }];
        let payload = Payload { key: Some("key".into()), value: Some(vec![0; 100].into()), headers };
        assert_eq!(alone_bytes(&payload), 61 + 2 + 3 + (1 + 3) + (2 + 100) + 1 + (1 + 2) + (1 + 1));
    }
}

//! What tells one message from every other, and stays the same over attempts, owners and replays.

use std::fmt::Write as _;

use bytes::BytesMut;
use common::record::header;
use engine::event::Event;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::decode::Delivered;

/// Of an `Idempotency-Key`, in bytes.
const MAX_ID_BYTES: usize = 256;

/// The message's id, so that a receiver recognises a message that its producer repeated; for a
/// record without one (or with one that is no `Idempotency-Key`), 16 hex digits of its topic and
/// time, its partition and its offset, joined by `_`. Dots are what Standard Webhooks joins by.
pub(super) fn write_webhook_id(event: &Event<Delivered>, text: &mut BytesMut) {
    let Delivered { origin, stored, .. } = &event.payload;
    match stored.header(header::ID).filter(|id| is_id(id)) {
        Some(id) => text.extend_from_slice(id),
        None => {
            let hash = xxh3_64_with_seed(&event.time_ms.to_be_bytes(), origin.identity);
            write!(text, "{hash:016x}_{}_{}", origin.partition, event.offset).expect("a buffer in memory takes everything");
        }
    }
}

fn is_id(id: &[u8]) -> bool {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-');
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.iter().all(legal)
}

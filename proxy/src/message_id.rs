//! Names for messages that came without an `Idempotency-Key`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const PREFIX_LENGTH: usize = 16;
const NUMBER_LENGTH: usize = 10;

/// Unique without asking anybody: 80 random bits of this process, then a number. Neither holds a
/// dot, which `Webhook-Id` must not.
pub(crate) struct MessageIds {
    prefix: [u8; PREFIX_LENGTH],
    next: AtomicU64,
}

impl MessageIds {
    pub(crate) fn new() -> Self {
        let random: u128 = rand::random();
        Self { prefix: std::array::from_fn(|i| digit((random >> (5 * i)) as u64)), next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> Bytes {
        let number = self.next.fetch_add(1, Relaxed);
        let mut id = Vec::with_capacity(PREFIX_LENGTH + NUMBER_LENGTH);
        id.extend_from_slice(&self.prefix);
        id.extend((0..NUMBER_LENGTH).rev().map(|i| digit(number >> (5 * i))));
        id.into()
    }
}

fn digit(number: u64) -> u8 {
    ALPHABET[(number % 32) as usize]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_distinct_within_and_between_processes_and_have_no_dots() {
        let (one, other) = (MessageIds::new(), MessageIds::new());
        let ids: HashSet<Bytes> = (0..5000).flat_map(|_| [one.next(), other.next()]).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| id.len() == 26 && id.iter().all(u8::is_ascii_alphanumeric)));
    }
}

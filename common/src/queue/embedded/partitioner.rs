//! Which partition a message goes to.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::ids::Partition;

/// What the producer asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Exactly(Partition),
    /// The hash of its key.
    ByKey(u32),
    /// No key: spread.
    Any,
}

impl Wish {
    pub(super) fn new(partition: Option<Partition>, key: Option<&[u8]>) -> Self {
        match (partition, key) {
            (Some(partition), _) => Self::Exactly(partition),
            (None, Some(key)) => Self::ByKey(murmur2(key)),
            (None, None) => Self::Any,
        }
    }

    /// The partition asked for by number; 0 where none was.
    pub(super) fn partition(self) -> Partition {
        match self {
            Self::Exactly(partition) => partition,
            Self::ByKey(_) | Self::Any => Partition(0),
        }
    }

    /// `None`: there is no such partition. `turn` goes round for what may go anywhere.
    pub(super) fn choose(self, partitions: u32, turn: &AtomicU32) -> Option<Partition> {
        match self {
            Self::Exactly(partition) => (partition.0 < partitions).then_some(partition),
            // Kafka's `toPositive`: the sign bit is cut off, not taken as a sign.
            Self::ByKey(hash) => Some(Partition((hash & 0x7fff_ffff) % partitions)),
            Self::Any => Some(Partition(turn.fetch_add(1, Ordering::Relaxed) % partitions)),
        }
    }
}

/// `org.apache.kafka.common.utils.Utils.murmur2`.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(data.len()).expect("a key is shorter than MAX_RECORD_BYTES");
    let mut hash = SEED ^ length;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * i);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Kafka's own `UtilsTest.testMurmur2`.
    #[test]
    fn keys_hash_as_in_the_java_client() {
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn no_key_is_spread_and_an_empty_key_is_a_key() {
        let turn = AtomicU32::new(0);
        let spread: Vec<_> = (0..4).filter_map(|_| Wish::new(None, None).choose(4, &turn)).collect();
        assert_eq!(spread, [0, 1, 2, 3].map(Partition));
        let empty = Wish::new(None, Some(b""));
        assert_eq!(empty.choose(4, &turn), empty.choose(4, &turn));
    }

    #[test]
    fn an_explicit_partition_wins_over_the_key_and_must_exist() {
        let turn = AtomicU32::new(0);
        let wish = |partition| Wish::new(Some(Partition(partition)), Some(b"key"));
        assert_eq!(wish(3).choose(4, &turn), Some(Partition(3)));
        assert_eq!(wish(4).choose(4, &turn), None);
    }
}

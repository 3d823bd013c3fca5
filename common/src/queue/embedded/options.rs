//! What the embedded log can be told, and the bounds it keeps.

use std::sync::Arc;
use std::time::Duration;

use crate::config::EmbeddedQueueConfig;
use crate::record::TimestampMs;

/// Key, value, headers and what frames them. The store itself ends at 4 GiB.
pub const MAX_RECORD_BYTES: usize = 32 << 20;
/// Partitions of one topic.
pub const MAX_PARTITIONS: u32 = 1_024;

/// One commit takes no more than this; the rest goes into the next.
pub(super) const COMMIT_RECORDS: usize = 8_192;
pub(super) const COMMIT_BYTES: usize = 4 << 20;
/// A larger chunk than this holds one record.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
/// Written since the last flush began, at most.
pub(super) const MEMTABLE_BYTES: u64 = 8 << 20;
/// A segment of so many is full, whatever it holds. One of 64 MiB has 8, unless the store closed memtables early,
/// as it does when one holds an old journal back. From 20 on it would slow down, and at 30 stop for good.
pub(super) const SEGMENT_TABLES: usize = 16;
/// Flushes that wait before commits wait for them.
pub(super) const WAITING_FLUSHES: usize = 2;
/// The newest records of all partitions, kept for readers near the end.
pub(super) const RECENT_BYTES: usize = 8 << 20;

const MIN_SEGMENT_BYTES: u64 = 1 << 20;
const MAX_SEGMENT_BYTES: u64 = 64 << 20;

/// The wall clock, as milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> TimestampMs + Send + Sync>;

#[derive(Clone)]
pub struct Options {
    /// `Some`: topics come into being with their first message, with so many partitions.
    pub auto_create: Option<u32>,
    pub max_topics: u32,
    /// By the greatest timestamp of a run of records (of one partition in one segment), as Kafka does it.
    pub retention: Duration,
    /// `None`: no bound but the disk.
    pub retention_bytes: Option<u64>,
    /// A segment takes no more records after it has reached this.
    pub segment_bytes: u64,
    /// What may wait for the disk or be under way to it.
    pub local_queue_records: usize,
    pub local_queue_bytes: usize,
    /// Of the disk, beside what the log itself needs for a commit. `None`: 1 %, of 4 to 64 MiB.
    pub disk_reserve_bytes: Option<u64>,
    /// Between two looks at retention.
    pub housekeeping_interval: Duration,
    pub clock: Clock,
}

impl From<&EmbeddedQueueConfig> for Options {
    fn from(config: &EmbeddedQueueConfig) -> Self {
        Self {
            auto_create: config.auto_create_topics.then_some(config.partitions),
            max_topics: config.max_topics,
            retention: config.retention,
            retention_bytes: config.retention_bytes,
            segment_bytes: config.retention_bytes.map_or(MAX_SEGMENT_BYTES, |b| (b / 8).clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES)),
            local_queue_records: 100_000,
            local_queue_bytes: 64 << 20,
            disk_reserve_bytes: None,
            housekeeping_interval: Duration::from_secs(60),
            clock: Arc::new(crate::clock::now_ms),
        }
    }
}

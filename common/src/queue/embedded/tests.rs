#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;

use super::*;
use crate::record::{Payload, Record};

mod disk_full;
mod limits;
mod model;
mod restart;
mod retaining;
mod torn;

mod conformance {
    use super::*;

    crate::queue_conformance!(|| async {
        let folder = tempfile::tempdir().unwrap();
        (open(folder.path(), options()) as Arc<dyn Queue>, folder)
    });
}

/// The same promises while segments are so small that most tests fill several.
mod conformance_with_small_segments {
    use super::*;

    crate::queue_conformance!(|| async {
        let folder = tempfile::tempdir().unwrap();
        (open(folder.path(), Options { segment_bytes: 300, ..options() }) as Arc<dyn Queue>, folder)
    });
}

const P0: Partition = Partition(0);

pub(in crate::queue) fn options() -> Options {
    Options {
        auto_create: None,
        max_topics: 100,
        retention: Duration::from_secs(3600),
        retention_bytes: None,
        segment_bytes: 64 << 20,
        local_queue_records: 10_000,
        local_queue_bytes: 64 << 20,
        disk_reserve_bytes: None,
        housekeeping_interval: Duration::from_secs(3600),
        clock: Arc::new(crate::clock::now_ms),
    }
}

pub(in crate::queue) fn open(folder: &Path, options: Options) -> Arc<EmbeddedQueue> {
    try_open(folder, options).unwrap()
}

fn try_open(folder: &Path, options: Options) -> Result<Arc<EmbeddedQueue>, RecoveryError> {
    EmbeddedQueue::open(Store::open(folder).unwrap(), options, &mut Registry::default())
}

/// A clock that stands where it is set.
#[derive(Clone)]
struct SetClock(Arc<AtomicI64>);

impl SetClock {
    fn at(ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(ms)))
    }

    fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::Relaxed);
    }

    fn clock(&self) -> Clock {
        let this = self.clone();
        Arc::new(move || this.0.load(Ordering::Relaxed))
    }
}

fn name(topic: &str) -> Topic {
    Topic::new(topic).unwrap()
}

fn message(topic: &str, value: impl Into<Bytes>) -> Message {
    let payload = Payload { value: Some(value.into()), ..Payload::default() };
    Message { topic: name(topic), partition: None, timestamp: None, payload }
}

async fn append(queue: &EmbeddedQueue, topic: &str, value: impl Into<Bytes>) -> u64 {
    queue.produce(message(topic, value), Ack::All).await.unwrap().offset.0
}

/// Everything from `from` to the end.
async fn read(queue: &EmbeddedQueue, topic: &str, from: u64) -> Vec<Record> {
    let end = queue.watermarks(&name(topic), P0).await.unwrap().end;
    let mut reader = Queue::open(queue, &name(topic), P0, Offset(from), Epoch(1)).await.unwrap();
    let mut records = Vec::new();
    let mut at = Offset(from);
    while at < end {
        let batch = reader.next(64 << 10).await.unwrap();
        records.extend(batch.records);
        at = batch.next_offset;
    }
    records
}

async fn values(queue: &EmbeddedQueue, topic: &str, from: u64) -> Vec<Bytes> {
    read(queue, topic, from).await.into_iter().map(|record| record.payload.value.unwrap()).collect()
}

async fn watermarks(queue: &EmbeddedQueue, topic: &str) -> (u64, u64) {
    let watermarks = queue.watermarks(&name(topic), P0).await.unwrap();
    (watermarks.first.0, watermarks.end.0)
}

/// Bytes of all files of the folder as they are on the disk, without holes.
fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => disk_bytes(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

/// The folder as a `kill -9` would leave it now: taken again until nothing moved meanwhile.
/// Journals end where their last byte is.
fn copy(from: &Path) -> TempDir {
    loop {
        let before = listing(from);
        let to = tempfile::tempdir().unwrap();
        let copied = copy_into(from, to.path());
        if copied.is_ok() && listing(from) == before {
            return to;
        }
    }
}

/// Every file with its size and time of change.
fn listing(folder: &Path) -> Vec<(std::path::PathBuf, u64, Option<std::time::SystemTime>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => files.extend(listing(&entry.path())),
            Ok(meta) => files.push((entry.path(), meta.len(), meta.modified().ok())),
            Err(_) => files.push((entry.path(), 0, None)),
        }
    }
    files.sort();
    files
}

fn copy_into(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_into(&entry.path(), &target)?;
        } else {
            let mut bytes = std::fs::read(entry.path())?;
            if target.extension().is_some_and(|ext| ext == "jnl") {
                trim_zeros(&mut bytes);
            }
            std::fs::write(target, bytes)?;
        }
    }
    Ok(())
}

fn trim_zeros(bytes: &mut Vec<u8>) {
    const BLOCK: usize = 64 << 10;
    while bytes.ends_with(&[0; BLOCK]) {
        bytes.truncate(bytes.len() - BLOCK);
    }
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
}

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;

mod conformance {
    use super::*;

    crate::queue_conformance!(|| async {
        let folder = tempfile::tempdir().unwrap();
        (open(folder.path(), options()) as Arc<dyn Queue>, folder)
    });
}

fn options() -> Options {
    Options {
        auto_create: None,
        max_topics: 100,
        retention: Duration::from_secs(3600),
        retention_bytes: None,
        segment_bytes: 64 << 20,
        local_queue_records: 10_000,
        local_queue_bytes: 64 << 20,
        housekeeping_interval: Duration::from_secs(3600),
        clock: system_clock(),
    }
}

fn open(folder: &std::path::Path, options: Options) -> Arc<EmbeddedQueue> {
    EmbeddedQueue::open(Store::open(folder).unwrap(), options, &mut Registry::default()).unwrap()
}

use super::*;

/// What groups have yet to deliver of partition 0 of topic `t`.
struct Needed(AtomicI64);

impl Needed {
    fn nothing() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(-1)))
    }
}

impl Needs for Needed {
    fn lowest_needed(&self, topic: &Topic, _: TopicId, _: Partition) -> Option<Offset> {
        let offset = u64::try_from(self.0.load(Ordering::Relaxed)).ok()?;
        (topic.as_str() == "t").then_some(Offset(offset))
    }
}

const HOUR: i64 = 3_600_000;

struct Aging {
    folder: TempDir,
    clock: SetClock,
    queue: Arc<EmbeddedQueue>,
}

/// Ten records at hour 0 and ten at hour 2, in segments of their own; it is hour 2.
async fn aging(retention_bytes: Option<u64>) -> Aging {
    let folder = tempfile::tempdir().unwrap();
    let clock = SetClock::at(0);
    let queue = open(folder.path(), aging_options(&clock, retention_bytes));
    for hour in [0, 2] {
        clock.set(hour * HOUR);
        for n in 0..10u8 {
            append(&queue, "t", vec![n; 1_000]).await;
        }
        clock.set(hour * HOUR + HOUR / 2);
        queue.housekeep().await;
    }
    Aging { folder, clock, queue }
}

fn aging_options(clock: &SetClock, retention_bytes: Option<u64>) -> Options {
    Options { auto_create: Some(1), retention: Duration::from_secs(3600), retention_bytes, clock: clock.clock(), ..options() }
}

#[tokio::test]
async fn old_records_go_and_the_first_offset_moves() {
    let Aging { folder, clock, queue } = aging(None).await;
    queue.housekeep().await;
    assert_eq!(watermarks(&queue, "t").await, (0, 20), "nobody has said yet what is needed");
    queue.set_needs(Needed::nothing());
    queue.housekeep().await;
    assert_eq!(watermarks(&queue, "t").await, (10, 20));
    let error = Queue::open(&*queue, &name("t"), P0, Offset(9), Epoch(1)).await.err().unwrap();
    let log = Watermarks { first: Offset(10), end: Offset(20) };
    assert_eq!(error, ReadError::OutOfRange { asked: Offset(9), log });
    assert_eq!(values(&queue, "t", 10).await.len(), 10);

    clock.set(9 * HOUR);
    queue.housekeep().await;
    assert_eq!(watermarks(&queue, "t").await, (20, 20));
    drop(queue);
    let queue = open(folder.path(), aging_options(&clock, None));
    assert_eq!(watermarks(&queue, "t").await, (20, 20));
    assert_eq!(append(&queue, "t", "on").await, 20);
    assert_eq!(values(&queue, "t", 20).await, ["on"]);
}

#[tokio::test]
async fn a_reader_that_retention_overtakes_is_told_so() {
    let Aging { folder: _folder, queue, .. } = aging(None).await;
    let mut reader = Queue::open(&*queue, &name("t"), P0, Offset(0), Epoch(1)).await.unwrap();
    assert_eq!(reader.next(1).await.unwrap().next_offset, Offset(1));
    queue.set_needs(Needed::nothing());
    queue.housekeep().await;
    let log = Watermarks { first: Offset(10), end: Offset(20) };
    assert_eq!(reader.next(1).await, Err(ReadError::OutOfRange { asked: Offset(1), log }));
}

#[tokio::test]
async fn age_spares_what_a_group_has_not_passed() {
    let Aging { folder: _folder, clock, queue } = aging(None).await;
    let needed = Needed::nothing();
    needed.0.store(3, Ordering::Relaxed);
    queue.set_needs(Arc::clone(&needed) as Arc<dyn Needs>);
    clock.set(100 * HOUR);
    queue.housekeep().await;
    assert_eq!(watermarks(&queue, "t").await, (0, 20));
    needed.0.store(10, Ordering::Relaxed);
    queue.housekeep().await;
    assert_eq!(watermarks(&queue, "t").await, (10, 20));
}

#[tokio::test]
async fn size_goes_before_what_a_group_needs() {
    let Aging { folder: _folder, queue, .. } = aging(Some(15_000)).await;
    let needed = Needed::nothing();
    needed.0.store(0, Ordering::Relaxed);
    queue.set_needs(needed);
    queue.housekeep().await;
    assert_eq!(watermarks(&queue, "t").await, (10, 20));
}

/// The next look is an hour away.
#[tokio::test]
async fn the_bound_on_size_is_kept_while_segments_fill() {
    let folder = tempfile::tempdir().unwrap();
    let clock = SetClock::at(0);
    let queue = open(folder.path(), Options { segment_bytes: 4_000, ..aging_options(&clock, Some(10_000)) });
    for _ in 0..100 {
        append(&queue, "t", vec![0; 1_000]).await;
    }
    // The housekeeper is a thread of its own, and a moment behind.
    let kept = async {
        while watermarks(&queue, "t").await.0 < 80 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(5), kept).await.unwrap();
}

#[tokio::test]
async fn dropped_records_are_counted_by_cause() {
    let folder = tempfile::tempdir().unwrap();
    let clock = SetClock::at(0);
    let mut registry = Registry::default();
    let options = Options { segment_bytes: 4_000, ..aging_options(&clock, Some(10_000)) };
    let queue = EmbeddedQueue::open(Store::open(folder.path()).unwrap(), options, &mut registry).unwrap();
    for _ in 0..40 {
        append(&queue, "t", vec![0; 1_000]).await;
    }
    queue.housekeep().await;
    let (first, end) = watermarks(&queue, "t").await;
    assert!(first >= 28 && end == 40, "{first}..{end}");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains(&format!("log_dropped_records_total{{cause=\"Size\"}} {first}\n")), "{text}");
    assert!(text.contains("log_synced_records_total 40\n"), "{text}");
}

#[tokio::test]
async fn retention_gives_disk_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let clock = SetClock::at(0);
    let queue = open(folder.path(), Options { segment_bytes: 2 << 20, ..aging_options(&clock, Some(4 << 20)) });
    for _ in 0..100 {
        append(&queue, "t", vec![7; 400_000]).await;
    }
    queue.housekeep().await;
    queue.shutdown().await;
    drop(queue);
    // Files of a dropped segment go with the last reader of its journal, at the latest at a start.
    drop(open(folder.path(), aging_options(&clock, None)));
    let tables = disk_bytes(&folder.path().join("keyspaces"));
    assert!(tables < 12 << 20, "{tables} bytes");
}

/// A topic with a group that stands still among one that grows and is dropped.
#[tokio::test]
async fn what_little_is_needed_is_moved_and_holds_nothing_else_back() {
    let folder = tempfile::tempdir().unwrap();
    let clock = SetClock::at(0);
    let options = || Options { segment_bytes: 1 << 20, ..aging_options(&clock, None) };
    let queue = open(folder.path(), options());
    let needed = Needed::nothing();
    needed.0.store(0, Ordering::Relaxed);
    queue.set_needs(needed);
    for n in 0..60u8 {
        append(&queue, "t", vec![n; 100]).await;
        append(&queue, "bulk", vec![n; 200_000]).await;
    }
    clock.set(50 * HOUR);
    queue.housekeep().await;
    queue.housekeep().await;
    assert_eq!(watermarks(&queue, "bulk").await, (60, 60));
    let check = async |queue: &EmbeddedQueue| {
        let read = values(queue, "t", 0).await;
        assert!((0..60u8).zip(&read).all(|(n, value)| *value == vec![n; 100]) && read.len() == 60);
    };
    check(&queue).await;
    assert_eq!(append(&queue, "t", vec![60; 100]).await, 60);
    queue.shutdown().await;
    drop(queue);
    let queue = open(folder.path(), options());
    assert_eq!(watermarks(&queue, "t").await, (0, 61));
    assert_eq!(append(&queue, "bulk", "on").await, 60);
    assert_eq!(values(&queue, "t", 0).await.len(), 61);
    assert_eq!(queue.offset_for_time(&name("t"), P0, 1).await.unwrap(), Offset(60));
    let tables = disk_bytes(&folder.path().join("keyspaces"));
    assert!(tables < 3 << 20, "{tables} bytes");
}

use super::*;
use crate::store::Profile;

async fn refusal(queue: &EmbeddedQueue, message: Message) -> ProduceError {
    queue.produce(message, Ack::All).await.unwrap_err()
}

#[tokio::test]
async fn topics_come_into_being_with_their_first_message_up_to_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(3), max_topics: 2, ..options() });
    let mut changes = queue.changes();
    append(&queue, "a", "x").await;
    assert!(changes.has_changed().unwrap());
    changes.borrow_and_update();
    append(&queue, "b", "x").await;
    assert_eq!(queue.topic(&name("a")).await.unwrap().unwrap().partitions, 3);
    let refused = refusal(&queue, message("c", "x")).await;
    assert!(matches!(refused, ProduceError::NotWritten(NotWritten::TooManyTopics, _)), "{refused}");
    assert_eq!(queue.create_topic(&name("c"), 1).await, Err(CreateTopicError::TooMany(2)));
    queue.delete_topic(&name("a")).await.unwrap();
    append(&queue, "c", "x").await;
}

#[tokio::test]
async fn partitions_of_a_topic_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), options());
    let refused = queue.create_topic(&name("t"), MAX_PARTITIONS + 1).await;
    assert_eq!(refused, Err(CreateTopicError::Partitions { asked: MAX_PARTITIONS + 1, max: MAX_PARTITIONS }));
    assert_eq!(queue.create_topic(&name("t"), MAX_PARTITIONS).await.unwrap().partitions, MAX_PARTITIONS);
}

#[tokio::test]
async fn a_full_local_queue_refuses_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(1), local_queue_bytes: 2_000, ..options() });
    let refused = refusal(&queue, message("t", vec![0; 2_000])).await;
    assert!(matches!(refused, ProduceError::NotWritten(NotWritten::LocalQueueFull, _)), "{refused}");
    for _ in 0..100 {
        append(&queue, "t", vec![0; 1_000]).await;
    }
}

#[tokio::test]
async fn a_record_beyond_all_bounds_is_too_large() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(1), ..options() });
    let refused = refusal(&queue, message("t", vec![0; MAX_RECORD_BYTES])).await;
    assert!(matches!(refused, ProduceError::TooLarge { limit: MAX_RECORD_BYTES, .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_readable_before_it_is_acknowledged_to_be_synced() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(1), ..options() });
    append(&queue, "t", "first").await;
    let mut reader = Queue::open(&*queue, &name("t"), P0, Offset(0), Epoch(1)).await.unwrap();
    let writer = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move {
            for _ in 0..200 {
                append(&queue, "t", "x").await;
            }
        }
    });
    let mut at = Offset(0);
    while at < Offset(201) {
        let batch = reader.next(1 << 20).await.unwrap();
        // What a reader has seen is what a crash at this moment would leave.
        let killed = if at == Offset(0) { Some(copy(folder.path())) } else { None };
        at = batch.next_offset;
        if let Some(killed) = killed {
            let survivor = open(killed.path(), options());
            assert!(watermarks(&survivor, "t").await.1 >= at.0);
        }
    }
    writer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_far_behind_read_what_is_no_longer_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(1), segment_bytes: 4 << 20, ..options() });
    let writes: Vec<_> = (0..200u8).map(|n| queue.produce(message("t", vec![n; 100_000]), Ack::All)).collect();
    for write in writes {
        write.await.unwrap();
    }
    let read = values(&queue, "t", 0).await;
    assert_eq!(read.len(), 200);
    assert!((0..200u8).zip(&read).all(|(n, value)| value.len() == 100_000 && value[0] == n && value[99_999] == n));
}

/// The store closes the memtable of the segment that is being filled whenever it holds back an old
/// journal: once for every 64 MB of cursors. A keyspace of 30 tables takes no more writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_whose_memtable_is_closed_again_and_again_never_holds_messages_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let options = Options { auto_create: Some(1), ..options() };
    let queue = EmbeddedQueue::open(store.clone(), options, &mut Registry::default()).unwrap();
    for n in 0..50 {
        for topic in ["a", "b"] {
            assert_eq!(timeout(Duration::from_secs(10), append(&queue, topic, "x")).await.expect("it is taken"), n);
        }
        let segment = store.keyspace_names().into_iter().filter(|name| name.starts_with("log-0")).max().unwrap();
        let segment = store.keyspace(&segment, Profile::Log).unwrap();
        let tables = segment.tables();
        segment.rotate().unwrap();
        while segment.tables() == tables {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(read(&queue, "a", 0).await.len(), 50);
}

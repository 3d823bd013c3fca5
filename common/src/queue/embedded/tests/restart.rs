use super::*;

#[tokio::test]
async fn everything_is_there_after_a_restart_and_offsets_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(1), segment_bytes: 2_000, ..options() });
    for n in 0..100u8 {
        assert_eq!(append(&queue, "t", vec![n; 100]).await, u64::from(n));
    }
    let info = queue.topics().await.unwrap();
    queue.shutdown().await;
    drop(queue);

    let queue = open(folder.path(), options());
    assert_eq!(queue.topics().await.unwrap(), info);
    assert_eq!(watermarks(&queue, "t").await, (0, 100));
    assert_eq!(append(&queue, "t", "next").await, 100);
    let read = values(&queue, "t", 0).await;
    assert!((0..100u8).zip(&read).all(|(n, value)| *value == vec![n; 100]));
    assert_eq!(read[100], "next");
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(1), segment_bytes: 500, ..options() });
    for n in 0..30u8 {
        append(&queue, "t", vec![n; 50]).await;
        if n % 7 == 0 {
            let killed = copy(folder.path());
            let queue = open(killed.path(), options());
            assert_eq!(watermarks(&queue, "t").await, (0, u64::from(n) + 1));
            assert_eq!(values(&queue, "t", 0).await.last().unwrap(), &vec![n; 50]);
            assert_eq!(append(&queue, "t", "on").await, u64::from(n) + 1);
        }
    }
}

#[tokio::test]
async fn restarts_in_a_row_keep_every_record() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..12u64 {
        let queue = open(folder.path(), Options { auto_create: Some(1), segment_bytes: 150, ..options() });
        for n in 0..round {
            append(&queue, "t", vec![u8::try_from(n).unwrap(); 40]).await;
        }
        let written = round * (round + 1) / 2;
        if written > 0 {
            assert_eq!(watermarks(&queue, "t").await, (0, written));
            assert_eq!(values(&queue, "t", 0).await.len() as u64, written);
        }
    }
}

#[tokio::test]
async fn shutdown_writes_what_was_taken_and_takes_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(1), ..options() });
    let writes: Vec<_> = (0..500).map(|_| queue.produce(message("t", "x"), Ack::All)).collect();
    let unanswered = queue.produce(message("t", "x"), Ack::None);
    queue.shutdown().await;
    for write in writes {
        write.await.unwrap();
    }
    unanswered.await.unwrap();
    let refused = queue.produce(message("t", "x"), Ack::All).await;
    assert!(matches!(refused, Err(ProduceError::NotWritten(NotWritten::ShuttingDown, _))), "{refused:?}");
    drop(queue);
    assert_eq!(watermarks(&open(folder.path(), options()), "t").await, (0, 501));
}

#[tokio::test]
async fn a_deleted_topic_stays_deleted_and_gives_its_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(1), ..options() });
    for _ in 0..40 {
        append(&queue, "gone", vec![1; 500_000]).await;
    }
    append(&queue, "kept", "x").await;
    let old = queue.topic(&name("gone")).await.unwrap().unwrap();
    queue.delete_topic(&name("gone")).await.unwrap();
    queue.housekeep().await;
    queue.shutdown().await;
    drop(queue);

    let queue = open(folder.path(), Options { auto_create: Some(1), ..options() });
    let tables: u64 = disk_bytes(&folder.path().join("keyspaces"));
    assert!(tables < 1_000_000, "{tables} bytes");
    assert_eq!(queue.topic(&name("gone")).await.unwrap(), None);
    assert_eq!(values(&queue, "kept", 0).await, ["x"]);
    assert_eq!(append(&queue, "gone", "new").await, 0);
    assert_ne!(queue.topic(&name("gone")).await.unwrap().unwrap().id, old.id);
    assert_eq!(values(&queue, "gone", 0).await, ["new"]);
}

#[tokio::test]
async fn a_message_written_after_the_folder_is_removed_is_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(1), ..options() });
    append(&queue, "t", "before").await;
    assert!(queue.missing().is_empty());
    std::fs::remove_dir_all(folder.path()).unwrap();
    let answer = queue.produce(message("t", "after"), Ack::All).await;
    assert!(matches!(answer, Err(ProduceError::MaybeWritten(_))), "{answer:?}");
    let answer = queue.produce(message("t", "later"), Ack::All).await;
    assert!(matches!(answer, Err(ProduceError::NotWritten(NotWritten::StorageFailed, _))), "{answer:?}");
}

#[tokio::test]
async fn a_removed_folder_is_told_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), options());
    std::fs::remove_dir_all(folder.path()).unwrap();
    assert!(queue.missing()[0].contains("removed or moved while in use"), "{:?}", queue.missing());
}

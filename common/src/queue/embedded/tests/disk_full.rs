use super::*;

/// With a reserve that no disk has. A disk that really fills up, and gets room again, is an
/// integration test: it takes a file system of its own.
#[tokio::test]
async fn a_full_disk_refuses_every_message_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    append(&open(folder.path(), Options { auto_create: Some(1), ..options() }), "t", "before").await;

    let queue = open(folder.path(), Options { disk_reserve_bytes: Some(1 << 60), ..options() });
    let refused = queue.produce(message("t", "x"), Ack::All).await;
    assert!(matches!(refused, Err(ProduceError::NotWritten(NotWritten::DiskFull, _))), "{refused:?}");
    assert!(queue.missing()[0].contains("is full"), "{:?}", queue.missing());
    assert_eq!(values(&queue, "t", 0).await, ["before"]);
    assert!(queue.delete_topic(&name("t")).await.unwrap(), "room can still be made");
}

use common::coordinator::{Coordinator, Replay, ReplayTarget};
use common::ids::{GroupName, Offset, Partition};
use common::queue::Queue;
use common::store::{Durability, Profile};

use crate::receiver::{Answer, Receiver};
use crate::rig::{Rig, at, cursor, group, named};

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_taken_up_by_the_running_owner() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let running = rig.start(&[group("g", receiver.address, &["t"])]).await;
    running.queue_topic("t", 2).await;
    for number in 0..10 {
        running.post_to("t", number % 2, &number.to_string()).await;
    }
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log().len(), 10);
    let topic_id = running.queue.topic(&named("t")).await.unwrap().unwrap().id;
    let target = ReplayTarget { topic: named("t"), partition: Partition(1), to: Offset(2), topic_id };
    let replay = Replay { group: GroupName::new("g").unwrap(), id: "again".into(), asked_at: 1_700_000_000_000, targets: vec![target] };
    running.coordinator.replay(&replay).await.unwrap();
    let log = receiver.wait_for(13).await;
    assert_eq!(log[10..].iter().map(|received| (received.partition, received.offset)).collect::<Vec<_>>(), [(1, 2), (1, 3), (1, 4)]);
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log().len(), 13);
    running.drain().await;
}

/// A second group of the same topic shows when the paused one would have made its attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_group_makes_no_attempt_until_it_is_resumed() {
    let (rig, receiver, other) = (Rig::new(), Receiver::ok().await, Receiver::ok().await);
    let groups = [group("g", receiver.address, &["t"]), group("other", other.address, &["t"])];
    let running = rig.start(&groups).await;
    running.post("t", None, "one").await;
    running.wait_caught_up("g").await;
    let (status, stated) = running.request("POST", "/groups/g/pause", Some(serde_json::json!({}))).await;
    assert_eq!((status, &stated["state"]), (200, &serde_json::json!("paused")));
    running.wait_until("g", |partition| partition["live"]["blocked"] == "paused").await;
    assert_eq!(running.get("/groups/g").await.1["state"], "paused");
    running.post("t", None, "two").await;
    other.wait_for(2).await;
    running.drain().await;
    assert_eq!(receiver.log().len(), 1);
    let running = rig.start(&groups).await;
    running.wait_until("g", |partition| partition["live"]["blocked"] == "paused").await;
    running.post("t", None, "three").await;
    other.wait_for(3).await;
    assert_eq!(receiver.log().len(), 1, "paused over the restart, too");
    running.request("POST", "/groups/g/resume", Some(serde_json::json!({}))).await;
    receiver.wait_for(3).await;
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log().len(), 3);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_cannot_be_read_stops_its_own_partition_only() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let groups = [group("g", receiver.address, &["t"])];
    let running = rig.start(&groups).await;
    running.queue_topic("t", 2).await;
    running.post_to("t", 0, "first").await;
    running.post_to("t", 1, "first").await;
    running.wait_caught_up("g").await;
    running.drain().await;
    let stores = rig.open();
    let keyspace = stores.store.keyspace("coordinator", Profile::Small).unwrap();
    let mut pairs: Vec<_> = keyspace.prefix(b"pair\0g\0t\0").map(|entry| entry.unwrap().0).collect();
    pairs.sort();
    let mut batch = stores.store.batch();
    batch.put(&keyspace, &pairs[0], b"seven\n".to_vec());
    batch.commit(Durability::Synced).unwrap();
    drop((keyspace, stores));
    let running = rig.start(&groups).await;
    running.post_to("t", 0, "held back").await;
    running.post_to("t", 1, "second").await;
    assert_eq!(receiver.wait_for(3).await[2].body, "second");
    let (_, detail) = running.get("/groups/g").await;
    assert!(detail["partitions"][0]["trouble"].as_str().unwrap().contains("\"seven"), "{detail:#}");
    assert!(detail["partitions"][0]["live"].is_null());
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_retention_took_are_skipped_on_record_and_the_next_is_delivered() {
    let (mut rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Status(503)).await);
    (rig.options.retention_bytes, rig.options.segment_bytes) = (Some(64 << 10), 16 << 10);
    let groups = [group("g", receiver.address, &["t"])];
    let running = rig.start(&groups).await;
    running.queue_topic("t", 1).await;
    running.post("t", Some("k"), "0").await;
    receiver.wait_for(1).await;
    running.drain().await;
    let between = rig.start(&[]).await;
    for number in 1..200 {
        between.post("t", Some("k"), &format!("{number} {}", noise(2048))).await;
    }
    between.queue.housekeep().await;
    let first = between.queue.watermarks(&named("t"), Partition(0)).await.unwrap().first;
    assert!(first > Offset(0));
    between.drain().await;
    receiver.script(|_| Answer::Status(200));
    let before = receiver.log().len();
    let running = rig.start(&groups).await;
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log()[before].offset, first.0);
    let skipped = format!(r#"mqgate_skipped_records_total{{group="g",topic="t",reason="below_first"}} {first}"#);
    let scraped = running.scrape().await;
    assert!(scraped.contains(&skipped), "{skipped} is not in\n{scraped}");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_retention_takes_from_a_running_partition_are_skipped_on_record() {
    let (mut rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Status(503)).await);
    (rig.options.retention_bytes, rig.options.segment_bytes) = (Some(64 << 10), 16 << 10);
    let mut narrow = group("g", receiver.address, &["t"]);
    narrow.max_in_flight_records = 5;
    let running = rig.start(&[narrow]).await;
    running.queue_topic("t", 1).await;
    for number in 0..200 {
        running.post("t", Some("k"), &format!("{number} {}", noise(2048))).await;
    }
    running.queue.housekeep().await;
    let first = running.queue.watermarks(&named("t"), Partition(0)).await.unwrap().first;
    assert!(first > Offset(5));
    receiver.script(|_| Answer::Status(200));
    running.wait_caught_up("g").await;
    let offsets: Vec<_> = receiver.answered().iter().map(|received| received.offset).collect();
    assert_eq!(offsets.last(), Some(&199));
    assert!(offsets.contains(&first.0), "never a jump to the end: {offsets:?}");
    let standing = running.coordinator.standing(&[at("g", "t", 0)]).await.unwrap().remove(0);
    assert!(cursor(standing.progress).unwrap() >= first);
    running.drain().await;
}

/// Text that does not compress.
fn noise(chars: usize) -> String {
    (0..chars).map(|_| char::from(rand::random_range(b'a'..=b'z'))).collect()
}

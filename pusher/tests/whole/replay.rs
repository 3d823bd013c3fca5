use std::sync::atomic::Ordering::Relaxed;

use common::coordinator::Coordinator;
use serde_json::{Value, json};

use crate::faults::FaultyQueue;
use crate::receiver::Receiver;
use crate::rig::{Rig, Running, at, cursor, group};

const OLD: i64 = 1_700_000_000_000;

/// Partition 0 holds what is old, 1 what is recent and out of order, 2 nothing; all is delivered, and
/// written down.
async fn delivered(running: &Running) {
    running.queue_topic("t", 3).await;
    for (partition, times) in [(0, [OLD, OLD + 1000, OLD + 2000].as_slice()), (1, &[OLD + 5000, OLD + 9000, OLD + 6000])] {
        for (number, time) in times.iter().enumerate() {
            running.post_at("t", partition, *time, &format!("{partition}/{number}")).await;
        }
    }
    running.wait_caught_up("g").await;
    let stored = async {
        while !running.get("/groups/g/cursors").await.1["cursors"].as_array().unwrap().iter().all(|of| of["lag"] == 0) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), stored).await.unwrap();
}

async fn replay(running: &Running, body: Value) -> (u16, Value) {
    running.request("POST", "/groups/g/replay", Some(body)).await
}

fn time(after_old_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(OLD + after_old_ms).unwrap().to_string()
}

/// Old and new cursor by partition.
fn moved(answer: &Value) -> Vec<(u64, Value, u64)> {
    let partitions = answer["partitions"].as_array().unwrap_or_else(|| panic!("{answer:#}"));
    partitions.iter().map(|of| (of["partition"].as_u64().unwrap(), of["old"].clone(), of["new"].as_u64().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_by_time_begins_at_the_first_record_of_that_time_or_later_in_every_partition() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let running = rig.start(&[group("g", receiver.address, &["t"])]).await;
    delivered(&running).await;
    let cases = [
        ("1969-01-01T00:00:00Z".to_owned(), [0, 0, 0]),
        (time(-1), [0, 0, 0]),
        (time(1000), [1, 0, 0]),
        (time(1001), [2, 0, 0]),
        (time(5500), [3, 1, 0]),
        (time(9001), [3, 3, 0]),
    ];
    for (from, new) in cases {
        let (status, answer) = replay(&running, json!({"from": from, "dry_run": true})).await;
        let expected: Vec<_> =
            (0..).zip([3, 3, 0].into_iter().zip(new)).map(|(partition, (old, new))| (partition, json!(old), new)).collect();
        assert_eq!((status, moved(&answer)), (200, expected), "{from}");
    }
    assert_eq!(receiver.log().len(), 6, "a dry run moves nothing");
    let before = receiver.log().len();
    let (status, answer) = replay(&running, json!({"from": time(1500), "id": "fix-1"})).await;
    assert_eq!((status, &answer["id"], &answer["repeated"]), (200, &json!("fix-1"), &json!(false)), "{answer}");
    let mut again: Vec<_> = receiver.wait_for(before + 4).await[before..].iter().map(|received| received.body.clone()).collect();
    again.sort();
    assert_eq!(again, ["0/2", "1/0", "1/1", "1/2"]);
    running.wait_caught_up("g").await;
    assert_eq!(replay(&running, json!({"from": time(0), "id": "fix-1"})).await.1["repeated"], true);
    assert_eq!(replay(&running, json!({"from": time(0), "id": "fix-1", "dry_run": true})).await.1["repeated"], true);
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log().len(), before + 4, "once, however often it is asked for");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_time_and_no_offset_of_the_log_is_refused_by_name() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let running = rig.start(&[group("g", receiver.address, &["t"])]).await;
    delivered(&running).await;
    let refused = [
        (json!({"from": 1_700_000_000}), "malformed"),
        (json!({"from": 1_700_000_000_000_000_u64}), "malformed"),
        (json!({"from": -1}), "malformed"),
        (json!({"from": "1700000000"}), "malformed"),
        (json!({"from": "yesterday"}), "malformed"),
        (json!({}), "malformed"),
        (json!({"from": time(0), "offsets": {"t": {"0": 1}}}), "malformed"),
        (json!({"from": time(0), "id": "a b"}), "malformed"),
        (json!({"since": time(0)}), "malformed"),
        (json!({"offsets": {"t": {"0": 4}}}), "malformed"),
        (json!({"offsets": {"t": {"zero": 1}}}), "malformed"),
        (json!({"offsets": {"t": {"3": 0}}}), "unknown_partition"),
        (json!({"offsets": {"other": {"0": 0}}}), "unknown_topic"),
    ];
    for (body, code) in refused {
        let (_, answer) = replay(&running, body.clone()).await;
        assert_eq!(answer["code"], code, "{body}: {answer}");
    }
    assert_eq!(running.request("POST", "/groups/none/replay", Some(json!({"from": time(0)}))).await.1["code"], "unknown_group");
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log().len(), 6);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_to_offsets_moves_these_partitions_only() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let running = rig.start(&[group("g", receiver.address, &["t"])]).await;
    delivered(&running).await;
    let (status, answer) = replay(&running, json!({"offsets": {"t": {"1": 2, "0": 1}}})).await;
    assert_eq!((status, moved(&answer)), (200, vec![(0, json!(3), 1), (1, json!(3), 2)]));
    assert!(!answer["id"].as_str().unwrap().is_empty(), "generated and returned");
    let mut again: Vec<_> = receiver.wait_for(9).await[6..].iter().map(|received| received.body.clone()).collect();
    again.sort();
    assert_eq!(again, ["0/1", "0/2", "1/2"]);
    running.wait_caught_up("g").await;
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_partition_that_does_not_answer_leaves_all_of_them_where_they_are() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let stores = rig.open();
    let (queue, coordinator) = (FaultyQueue::around(stores.queue.clone()), stores.coordinator.clone());
    let groups = [group("g", receiver.address, &["t"])];
    let running = Running::start_on(stores, queue.clone(), coordinator.clone(), &groups, rig.drain_timeout).await;
    delivered(&running).await;
    queue.times_fail_in.store(1, Relaxed);
    let (status, answer) = replay(&running, json!({"from": time(0), "id": "half"})).await;
    assert_eq!((status, &answer["code"]), (503, &json!("unavailable")), "{answer}");
    queue.times_fail_in.store(u32::MAX, Relaxed);
    for partition in 0..2 {
        let standing = coordinator.standing(&[at("g", "t", partition)]).await.unwrap().remove(0);
        assert_eq!(cursor(standing.progress).unwrap().0, 3);
    }
    let (status, answer) = replay(&running, json!({"from": time(0), "id": "half"})).await;
    assert_eq!((status, &answer["repeated"]), (200, &json!(false)), "the id was not used up");
    receiver.wait_for(12).await;
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_group_is_replayed_and_begins_there_when_it_is_resumed() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let running = rig.start(&[group("g", receiver.address, &["t"])]).await;
    delivered(&running).await;
    running.request("POST", "/groups/g/pause", Some(json!({}))).await;
    replay(&running, json!({"from": time(0)})).await;
    running.wait_until("g", |of| of["partition"] == 2 || (of["cursor"] == 0 && of["live"]["blocked"] == "paused")).await;
    assert_eq!(receiver.log().len(), 6);
    running.request("POST", "/groups/g/resume", Some(json!({}))).await;
    receiver.wait_for(12).await;
    running.wait_caught_up("g").await;
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cursors_that_are_stored_are_shown_with_what_is_done_above_them() {
    let stuck = |received: &crate::receiver::Received| match received.offset {
        2 | 5 => crate::receiver::Answer::Status(500),
        _ => crate::receiver::Answer::Status(200),
    };
    let (rig, receiver) = (Rig::new(), Receiver::answering(stuck).await);
    let running = rig.start(&[group("g", receiver.address, &["t"])]).await;
    running.queue_topic("t", 1).await;
    for number in 0..9 {
        running.post("t", Some(&number.to_string()), "x").await;
    }
    let stored = async || running.get("/groups/g/cursors").await.1["cursors"][0].clone();
    let waited = async {
        while stored().await["done_records"] != 5 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), waited).await.unwrap();
    let cursor = stored().await;
    assert_eq!(
        (&cursor["cursor"], &cursor["done"], &cursor["end"], &cursor["lag"]),
        (&json!(2), &json!([[3, 4], [6, 8]]), &json!(9), &json!(7))
    );
    assert_eq!(cursor["owner"], "me");
    running.drain().await;
}

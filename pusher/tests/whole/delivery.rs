use std::collections::HashMap;
use std::time::Duration;

use common::config::InitialFrom;

use crate::receiver::{Answer, Receiver};
use crate::rig::{Rig, group};

#[tokio::test(flavor = "multi_thread")]
async fn every_record_arrives_once_in_order_per_key_and_lag_reaches_zero() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let running = rig.start(&[group("g", receiver.address, &["t"])]).await;
    for number in 0..300 {
        running.post("t", Some(&format!("k{}", number % 7)), &number.to_string()).await;
    }
    let log = receiver.wait_for(300).await;
    let mut last: HashMap<u32, u32> = HashMap::new();
    for received in &log {
        let number: u32 = received.body.parse().unwrap();
        let before = last.insert(number % 7, number);
        assert!(before.is_none_or(|before| before < number), "{before:?} came before {number}");
    }
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log().len(), 300);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_receiver_hangs_takes_nothing_from_another_on_the_same_topic() {
    let (rig, dead, live) = (Rig::new(), Receiver::answering(|_| Answer::Hang).await, Receiver::ok().await);
    let mut hanging = group("dead", dead.address, &["t"]);
    hanging.worker_num = 4;
    hanging.max_in_flight_records = 50;
    let running = rig.start(&[hanging, group("live", live.address, &["t"])]).await;
    for number in 0..400 {
        running.post("t", Some(&number.to_string()), "x").await;
    }
    live.wait_for(400).await;
    running.wait_caught_up("live").await;
    assert_eq!(dead.log().len(), 4, "as many attempts as the group has workers");
    let (_, detail) = running.get("/groups/dead").await;
    let unfinished: Vec<_> = detail["partitions"].as_array().unwrap().iter().map(|p| p["live"]["unfinished"].as_u64().unwrap()).collect();
    assert!(unfinished.iter().all(|count| *count <= 50), "{unfinished:?}");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_resumes_at_the_cursor_and_repeats_nothing_that_is_done_above_it() {
    let stuck = |received: &crate::receiver::Received| match received.body.as_str() {
        "5" => Answer::Status(500),
        _ => Answer::Status(200),
    };
    let (rig, receiver) = (Rig::new(), Receiver::answering(stuck).await);
    let groups = [group("g", receiver.address, &["t"])];
    let running = rig.start(&groups).await;
    running.queue_topic("t", 1).await;
    for number in 0..100 {
        running.post("t", Some(&format!("k{number}")), &number.to_string()).await;
    }
    running.wait_until("g", |partition| partition["live"]["unfinished"] == 1 && partition["live"]["done_set"] == 94).await;
    running.drain().await;
    let before = receiver.log().len();
    receiver.script(|_| Answer::Status(200));
    let running = rig.start(&groups).await;
    running.wait_caught_up("g").await;
    let again: Vec<_> = receiver.log()[before..].iter().map(|received| received.body.clone()).collect();
    assert_eq!(again, ["5"]);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_message_of_a_new_topic_is_pushed_at_once_also_to_a_group_that_starts_at_the_newest() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let mut newest = group("g", receiver.address, &["t"]);
    newest.initial_from = InitialFrom::Newest;
    let running = rig.start(&[newest]).await;
    let produced = running.post("t", Some("k"), "first").await;
    let answered = tokio::time::Instant::now();
    let log = receiver.wait_for(1).await;
    let took = log[0].at.saturating_duration_since(answered);
    assert!(took < Duration::from_millis(500), "{took:?}");
    assert_eq!((log[0].topic.as_str(), log[0].body.as_str()), ("t", "first"));
    assert_eq!((log[0].offset, log[0].partition), (produced.offset.0, produced.partition.0));
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_round_uses_up_is_bypassed_into_the_dead_letter_topic() {
    let (rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Status(422)).await);
    let mut bypassing = group("g", receiver.address, &["t"]);
    (bypassing.bypass_failed, bypassing.retry_times) = (true, 2);
    bypassing.dead_letter_topic = Some(crate::rig::named("t.dead"));
    let running = rig.start(&[bypassing]).await;
    let (_, topics) = running.get("/topics").await;
    assert_eq!(topics["topics"][0]["topic"], "t.dead", "made at start: {topics}");
    let produced = running.post("t", Some("k"), "bad").await;
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log().iter().map(|received| received.attempt).collect::<Vec<_>>(), [0, 1, 2]);
    let (_, all) = running.get("/topics").await;
    let dead = all["topics"].as_array().unwrap().iter().find(|topic| topic["topic"] == "t.dead").unwrap();
    let partition = dead["partitions"].as_array().unwrap().iter().position(|log| log["end"] == 1).unwrap();
    let (_, messages) = running.get(&format!("/topics/t.dead/messages?partition={partition}")).await;
    let header = |name: &str| {
        let headers = messages["messages"][0]["headers"].as_array().unwrap();
        headers.iter().find(|header| header["name"] == name).unwrap()["value"].as_str().unwrap().to_owned()
    };
    assert_eq!((header("mqgate-dlq-topic"), header("mqgate-dlq-attempts")), ("t".into(), "3".into()));
    assert_eq!(header("mqgate-dlq-offset"), produced.offset.to_string());
    running.drain().await;
}

use common::config::InitialFrom;

use crate::receiver::Receiver;
use crate::rig::{Rig, group};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_group_starts_where_the_file_says() {
    let rig = Rig::new();
    let before = rig.start(&[]).await;
    before.queue_topic("t", 1).await;
    before.post("t", Some("k"), "old").await;
    before.drain().await;
    let (oldest, newest) = (Receiver::ok().await, Receiver::ok().await);
    let mut at_end = group("newest", newest.address, &["t"]);
    at_end.initial_from = InitialFrom::Newest;
    let running = rig.start(&[group("oldest", oldest.address, &["t"]), at_end]).await;
    running.post("t", Some("k"), "new").await;
    assert_eq!(bodies(&oldest.wait_for(2).await), ["old", "new"]);
    assert_eq!(bodies(&newest.wait_for(1).await), ["new"]);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_born_before_its_topic_gets_the_first_record_although_it_starts_at_the_newest_and_was_away() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let mut newest = group("g", receiver.address, &["t"]);
    newest.initial_from = InitialFrom::Newest;
    rig.start(&[newest.clone()]).await.drain().await;
    let between = rig.start(&[]).await;
    between.queue_topic("t", 1).await;
    between.post("t", None, "while it was away").await;
    between.drain().await;
    let running = rig.start(&[newest]).await;
    assert_eq!(bodies(&receiver.wait_for(1).await), ["while it was away"]);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_created_anew_is_delivered_from_its_first_record() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let running = rig.start(&[group("g", receiver.address, &["t"])]).await;
    running.queue_topic("t", 1).await;
    for number in 0..10 {
        running.post("t", None, &format!("former {number}")).await;
    }
    running.wait_caught_up("g").await;
    assert_eq!(running.request("DELETE", "/topics/t", None).await.0, 204);
    running.queue_topic("t", 1).await;
    running.post("t", None, "later").await;
    let log = receiver.wait_for(11).await;
    assert_eq!((log[10].body.as_str(), log[10].offset), ("later", 0));
    running.wait_caught_up("g").await;
    assert!(running.scrape().await.contains(r#"mqgate_claims_total{group="g",topic="t",began="topic_recreated"} 1"#));
    running.drain().await;
}

fn bodies(log: &[crate::receiver::Received]) -> Vec<&str> {
    log.iter().map(|received| received.body.as_str()).collect()
}

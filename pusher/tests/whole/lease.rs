//! A lease that ends, and may be back before anybody has looked.

use std::sync::Arc;
use std::time::Duration;

use common::coordinator::Coordinator;
use tokio::time::Instant;

use crate::faults::FaultyCoordinator;
use crate::receiver::{Answer, Receiver};
use crate::rig::{Rig, Running, group};

async fn start(rig: &Rig, receiver: &Receiver) -> (Arc<FaultyCoordinator>, Running) {
    let stores = rig.open();
    let (queue, coordinator) = (stores.queue.clone(), FaultyCoordinator::around(stores.coordinator.clone()));
    let groups = [group("g", receiver.address, &["t"])];
    let running = Running::start_on(stores, queue, coordinator.clone(), &groups, rig.drain_timeout).await;
    running.queue_topic("t", 1).await;
    (coordinator, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lost_and_regained_between_two_looks_cuts_what_was_open() {
    let (rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Hang).await);
    let (coordinator, running) = start(&rig, &receiver).await;
    running.post("t", Some("k"), "x").await;
    receiver.wait_for(1).await;
    receiver.script(|_| Answer::Status(200));
    coordinator.holder.lose();
    coordinator.holder.grant();
    let log = receiver.wait_for(2).await;
    assert_eq!((log[1].body.as_str(), log[1].attempt), ("x", 0), "as if it had never begun");
    running.wait_caught_up("g").await;
    assert!(running.scrape().await.contains(r#"mqgate_attempts_total{group="g",outcome="cut"} 1"#));
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_its_session_is_over_every_epoch_ends_and_the_partition_is_claimed_anew() {
    let (rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Hang).await);
    let (coordinator, running) = start(&rig, &receiver).await;
    running.post("t", Some("k"), "x").await;
    receiver.wait_for(1).await;
    let epoch = async || running.get("/groups/g").await.1["partitions"][0]["live"]["epoch"].as_u64();
    let before = epoch().await.unwrap();
    receiver.script(|_| Answer::Status(200));
    coordinator.holder.end();
    coordinator.holder.grant();
    receiver.wait_for(2).await;
    running.wait_caught_up("g").await;
    assert!(epoch().await.unwrap() > before);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_fails_without_a_lease_is_no_failed_attempt() {
    let (rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::After(Duration::from_millis(300), 500)).await);
    let stores = rig.open();
    let (queue, coordinator) = (stores.queue.clone(), FaultyCoordinator::around(stores.coordinator.clone()));
    let mut once = group("g", receiver.address, &["t"]);
    once.bypass_failed = true;
    let running = Running::start_on(stores, queue, coordinator.clone(), &[once], rig.drain_timeout).await;
    running.queue_topic("t", 1).await;
    running.post("t", Some("k"), "x").await;
    receiver.wait_for(1).await;
    receiver.script(|_| Answer::Status(200));
    coordinator.holder.lose();
    running.wait_until("g", |partition| partition["live"]["blocked"] == "lease" && partition["live"]["in_flight"] == 0).await;
    coordinator.holder.grant();
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log().iter().map(|received| received.attempt).collect::<Vec<_>>(), [0, 0]);
    assert!(!running.scrape().await.lines().any(|line| line.starts_with("mqgate_bypassed_total{") && !line.ends_with(" 0")));
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_still_end_in_a_drain_is_cut_when_the_lease_ends() {
    let (mut rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Hang).await);
    rig.drain_timeout = Duration::from_secs(15);
    let (coordinator, running) = start(&rig, &receiver).await;
    running.post("t", Some("k"), "x").await;
    receiver.wait_for(1).await;
    let began = Instant::now();
    let lost = async {
        while !coordinator.members().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        coordinator.holder.lose();
    };
    let (took, ()) = tokio::join!(running.drain(), lost);
    assert!(took < Duration::from_secs(5), "{took:?} of {:?}", began.elapsed());
    assert_eq!(receiver.log().len(), 1);
}

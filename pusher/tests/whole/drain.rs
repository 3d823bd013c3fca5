use std::collections::HashMap;
use std::time::Duration;

use common::coordinator::Coordinator;
use common::ids::Offset;

use crate::faults::FaultyCoordinator;
use crate::receiver::{Answer, Receiver};
use crate::rig::{Rig, Running, at, cursor, group};

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_starts_nothing_and_repeats_nothing() {
    let slow = |_: &crate::receiver::Received| Answer::After(Duration::from_millis(100), 200);
    let (rig, receiver) = (Rig::new(), Receiver::answering(slow).await);
    let groups = [group("g", receiver.address, &["t"])];
    let running = rig.start(&groups).await;
    for number in 0..400 {
        running.post("t", Some(&number.to_string()), &number.to_string()).await;
    }
    receiver.wait_for(100).await;
    let told = tokio::time::Instant::now();
    let took = running.drain().await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    let last = receiver.log().iter().map(|received| received.at).max().unwrap();
    assert!(last.saturating_duration_since(told) < Duration::from_millis(100));
    let running = rig.start(&groups).await;
    running.wait_caught_up("g").await;
    let mut times: HashMap<String, u32> = HashMap::new();
    receiver.log().into_iter().for_each(|received| *times.entry(received.body).or_default() += 1);
    assert_eq!(times.len(), 400);
    assert!(times.values().all(|count| *count == 1), "{times:?}");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hangs_is_cut_at_the_drain_timeout_and_tried_again_after_the_restart() {
    let (mut rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Hang).await);
    rig.drain_timeout = Duration::from_millis(500);
    let groups = [group("g", receiver.address, &["t"])];
    let running = rig.start(&groups).await;
    running.post("t", Some("k"), "x").await;
    receiver.wait_for(1).await;
    let took = running.drain().await;
    assert!((Duration::from_millis(500)..Duration::from_millis(1500)).contains(&took), "{took:?}");
    receiver.script(|_| Answer::Status(200));
    let running = rig.start(&groups).await;
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log().len(), 2);
    running.drain().await;
}

/// Found by the model test: the release took back what a commit had stored meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_is_stored_with_the_release_although_the_commit_before_is_not_answered() {
    let (mut rig, receiver) = (Rig::new(), Receiver::ok().await);
    rig.drain_timeout = Duration::from_millis(200);
    let stores = rig.open();
    let (queue, stored) = (stores.queue.clone(), stores.coordinator.clone());
    let coordinator = FaultyCoordinator::with_commits_of(Duration::from_secs(60), stored.clone());
    let running = Running::start_on(stores, queue, coordinator, &[group("g", receiver.address, &["t"])], rig.drain_timeout).await;
    running.queue_topic("t", 1).await;
    running.post("t", Some("k"), "x").await;
    receiver.wait_for(1).await;
    running.wait_caught_up("g").await;
    assert!(running.drain().await > Duration::from_secs(4), "a commit was under way");
    assert_eq!(cursor(stored.standing(&[at("g", "t", 0)]).await.unwrap().remove(0).progress), Some(Offset(1)));
}

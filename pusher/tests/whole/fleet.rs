use std::collections::HashSet;
use std::time::Duration;

use common::coordinator::{Coordinator, Member};

use crate::faults::FaultyCoordinator;
use crate::receiver::{Answer, Receiver};
use crate::rig::{Rig, Running, at, cursor, group, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn partitions_go_to_a_new_member_with_their_cursors_and_come_back_when_it_leaves() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let stores = rig.open();
    let coordinator = FaultyCoordinator::around(stores.coordinator.clone());
    let (queue, groups) = (stores.queue.clone(), [group("g", receiver.address, &["t"])]);
    let running = Running::start_on(stores, queue, coordinator.clone(), &groups, rig.drain_timeout).await;
    running.queue_topic("t", 8).await;
    for partition in 0..8 {
        running.post_to("t", partition, "x").await;
    }
    running.wait_caught_up("g").await;
    let me = coordinator.members().await.unwrap().remove(0);
    let other = Member { instance: "other".into(), boot: uuid::Uuid::new_v4(), admin: "10.0.0.2:9091".into(), ..me };
    coordinator.others.lock().unwrap().push(other);
    running.hint().await;
    let owned = async || {
        let (_, detail) = running.get("/groups/g").await;
        detail["partitions"].as_array().unwrap().iter().filter(|partition| !partition["live"].is_null()).count()
    };
    wait_for(async || owned().await == 4).await;
    let all: Vec<_> = (0..8).map(|partition| at("g", "t", partition)).collect();
    let free =
        async || coordinator.standing(&all).await.unwrap().into_iter().filter(|standing| standing.owner.is_none()).collect::<Vec<_>>();
    wait_for(async || free().await.len() == 4).await;
    assert!(free().await.into_iter().all(|standing| cursor(standing.progress).unwrap().0 == 1), "given up with the cursor");
    coordinator.others.lock().unwrap().clear();
    running.hint().await;
    wait_for(async || owned().await == 8).await;
    running.wait_caught_up("g").await;
    assert_eq!(receiver.log().len(), 8, "nothing was delivered twice");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_member_cannot_take_is_taken_in_its_stead_until_it_is_in_the_fleet_anew() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let stores = rig.open();
    let coordinator = FaultyCoordinator::around(stores.coordinator.clone());
    let (queue, groups) = (stores.queue.clone(), [group("g", receiver.address, &["t"])]);
    let running = Running::start_on(stores, queue, coordinator.clone(), &groups, rig.drain_timeout).await;
    let me = coordinator.members().await.unwrap().remove(0);
    let unable = Member { instance: "unable".into(), boot: uuid::Uuid::new_v4(), ..me };
    coordinator.others.lock().unwrap().push(unable);
    running.queue_topic("t", 8).await;
    let owned = async || {
        let (_, detail) = running.get("/groups/g").await;
        detail["partitions"].as_array().unwrap().iter().filter(|partition| !partition["live"].is_null()).count()
    };
    wait_for(async || owned().await == 4).await;
    *coordinator.patience.lock().unwrap() = Some(Duration::from_secs(1));
    wait_for(async || owned().await == 8).await;
    running.hint().await;
    running.hint().await;
    assert_eq!(owned().await, 8, "it keeps them");
    coordinator.others.lock().unwrap()[0].entered = 7;
    running.hint().await;
    wait_for(async || owned().await == 4).await;
    running.drain().await;
}

/// Another member comes and goes while an attempt is open: the partition is let go, and wanted again
/// before it has been given up.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_lost_and_regained_while_an_attempt_hangs_is_never_worked_on_twice_at_once() {
    let (rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Hang).await);
    let stores = rig.open();
    let coordinator = FaultyCoordinator::around(stores.coordinator.clone());
    let (queue, groups) = (stores.queue.clone(), [group("g", receiver.address, &["t"])]);
    let running = Running::start_on(stores, queue, coordinator.clone(), &groups, rig.drain_timeout).await;
    running.queue_topic("t", 8).await;
    for partition in 0..8 {
        running.post_to("t", partition, "x").await;
    }
    receiver.wait_for(8).await;
    let me = coordinator.members().await.unwrap().remove(0);
    coordinator.others.lock().unwrap().push(Member { instance: "other".into(), boot: uuid::Uuid::new_v4(), ..me });
    running.hint().await;
    let ending = async || {
        let (_, detail) = running.get("/groups/g").await;
        detail["partitions"].as_array().unwrap().iter().filter(|partition| partition["live"].is_null()).count()
    };
    wait_for(async || ending().await == 4).await;
    coordinator.others.lock().unwrap().clear();
    receiver.script(|_| Answer::Status(200));
    running.hint().await;
    running.wait_caught_up("g").await;
    let log = receiver.log();
    // The attempt began a moment before it was received.
    let open_until = log[..8].iter().map(|received| received.at + Duration::from_millis(4900)).min().unwrap();
    let again = &log[8..];
    assert_eq!(again.len(), 8);
    let taken_over: Vec<_> = again.iter().filter(|received| received.attempt == 0).collect();
    assert_eq!(taken_over.len(), 4, "those that were let go are begun anew, under a new epoch: {again:?}");
    assert!(taken_over.iter().all(|received| received.at >= open_until), "after the end of the former attempt");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_of_many_partitions_shares_transactions() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let stores = rig.open();
    let coordinator = FaultyCoordinator::with_commits_of(Duration::from_millis(100), stores.coordinator.clone());
    let (queue, groups) = (stores.queue.clone(), [group("g", receiver.address, &["t"])]);
    let running = Running::start_on(stores, queue, coordinator.clone(), &groups, rig.drain_timeout).await;
    running.queue_topic("t", 100).await;
    for partition in 0..100 {
        running.post_to("t", partition, "x").await;
    }
    let stored = async || coordinator.committed.lock().unwrap().iter().flatten().collect::<HashSet<_>>().len();
    wait_for(async || stored().await == 100).await;
    let committed = coordinator.committed.lock().unwrap().clone();
    assert!(committed.len() < 20, "{} transactions for 100 partitions", committed.len());
    for batch in committed {
        assert!(batch.len() <= 64);
        assert_eq!(batch.iter().collect::<HashSet<_>>().len(), batch.len(), "one write of a partition at a time");
    }
    running.drain().await;
}

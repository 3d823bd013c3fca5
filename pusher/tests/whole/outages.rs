use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use common::coordinator::{Coordinator, Replay, ReplayTarget};
use common::ids::Offset;
use common::queue::Queue;

use crate::faults::{FaultyCoordinator, FaultyQueue};
use crate::receiver::{Answer, Receiver};
use crate::rig::{Rig, Running, at, cursor, group, wait_for};

struct Faulty {
    queue: Arc<FaultyQueue>,
    coordinator: Arc<FaultyCoordinator>,
    running: Running,
}

async fn start(rig: &Rig, receiver: &Receiver) -> Faulty {
    let stores = rig.open();
    let (queue, coordinator) = (FaultyQueue::around(stores.queue.clone()), FaultyCoordinator::around(stores.coordinator.clone()));
    let groups = [group("g", receiver.address, &["t"])];
    let running = Running::start_on(stores, queue.clone(), coordinator.clone(), &groups, rig.drain_timeout).await;
    running.queue_topic("t", 1).await;
    Faulty { queue, coordinator, running }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_cuts_what_is_open_and_its_return_makes_it_again_as_if_never_begun() {
    let (rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Hang).await);
    let Faulty { coordinator, running, .. } = start(&rig, &receiver).await;
    running.post("t", Some("k"), "x").await;
    receiver.wait_for(1).await;
    coordinator.holder.end();
    running.wait_until("g", |partition| partition["live"]["blocked"] == "lease" && partition["live"]["in_flight"] == 0).await;
    receiver.script(|_| Answer::Status(200));
    running.post("t", Some("other"), "y").await;
    running.wait_until("g", |partition| partition["end"] == 2).await;
    let back = tokio::time::Instant::now();
    coordinator.holder.grant();
    running.wait_caught_up("g").await;
    let attempts: Vec<_> = receiver.log().iter().map(|received| (received.body.clone(), received.attempt)).collect();
    assert!(attempts[1..].contains(&("x".into(), 0)) && attempts[1..].contains(&("y".into(), 0)), "{attempts:?}");
    assert_eq!(attempts.len(), 3);
    assert!(receiver.log()[1..].iter().all(|received| received.at >= back), "nothing was attempted without a lease");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_that_could_not_be_stored_is_stored_later_and_nothing_is_delivered_again() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let Faulty { coordinator, running, .. } = start(&rig, &receiver).await;
    let stored = async || cursor(coordinator.standing(&[at("g", "t", 0)]).await.unwrap().remove(0).progress);
    running.wait_caught_up("g").await;
    coordinator.commits_fail.store(true, Relaxed);
    for number in 0..20 {
        running.post("t", Some("k"), &number.to_string()).await;
    }
    running.wait_caught_up("g").await;
    assert_eq!(stored().await, Some(Offset(0)));
    coordinator.commits_fail.store(false, Relaxed);
    let waited = async {
        while stored().await != Some(Offset(20)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waited).await.unwrap();
    assert_eq!(receiver.log().len(), 20);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_another_holds_is_taken_once_it_is_free() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let stores = rig.open();
    let coordinator = FaultyCoordinator::around(stores.coordinator.clone());
    coordinator.held_by_another.store(true, Relaxed);
    let (queue, groups) = (stores.queue.clone(), [group("g", receiver.address, &["t"])]);
    let running = Running::start_on(stores, queue, coordinator.clone(), &groups, rig.drain_timeout).await;
    running.post("t", Some("k"), "x").await;
    running.wait_until("g", |partition| partition["trouble"] == "owned by another").await;
    assert_eq!(receiver.log().len(), 0);
    coordinator.held_by_another.store(false, Relaxed);
    running.wait_caught_up("g").await;
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_goes_on_from_the_same_place_when_the_queue_is_back() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let Faulty { queue, running, .. } = start(&rig, &receiver).await;
    running.post("t", Some("k"), "before").await;
    receiver.wait_for(1).await;
    queue.reads_fail.store(true, Relaxed);
    running.post("t", Some("k"), "while it fails").await;
    let failed = async {
        while !running.scrape().await.contains("mqgate_read_failures_total{") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), failed).await.unwrap();
    queue.reads_fail.store(false, Relaxed);
    let log = receiver.wait_for(2).await;
    assert_eq!(log.iter().map(|received| received.offset).collect::<Vec<_>>(), [0, 1]);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_served_before_every_birth_is_written() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let stores = rig.open();
    let coordinator = FaultyCoordinator::around(stores.coordinator.clone());
    coordinator.births_fail.store(true, Relaxed);
    let (queue, groups) = (stores.queue.clone(), [group("g", receiver.address, &["t"])]);
    let healing = coordinator.clone();
    let heal = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(healing.members().await.unwrap(), []);
        healing.births_fail.store(false, Relaxed);
    });
    let running = Running::start_on(stores, queue, coordinator, &groups, rig.drain_timeout).await;
    assert!(heal.is_finished());
    heal.await.unwrap();
    running.post("t", Some("k"), "x").await;
    receiver.wait_for(1).await;
    running.drain().await;
}

/// Found by the model test: it was passed over with the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_was_read_is_heeded_although_the_rest_cannot_be() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let Faulty { coordinator, running, .. } = start(&rig, &receiver).await;
    running.wait_caught_up("g").await;
    coordinator.looks_fail.store(true, Relaxed);
    coordinator.set_paused(&at("g", "t", 0).group, true).await.unwrap();
    running.wait_until("g", |partition| partition["live"]["blocked"] == "paused").await;
    running.post("t", Some("k"), "x").await;
    coordinator.set_paused(&at("g", "t", 0).group, false).await.unwrap();
    receiver.wait_for(1).await;
    running.drain().await;
}

/// Found by the model test: the owner forgot the partition and kept it, so that nobody could have it any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_was_replayed_while_its_topic_was_not_to_be_seen_is_given_up_and_taken_again() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let Faulty { queue, coordinator, running } = start(&rig, &receiver).await;
    running.post("t", Some("k"), "x").await;
    running.wait_caught_up("g").await;
    let at = at("g", "t", 0);
    let topic_id = queue.topic(&at.topic).await.unwrap().unwrap().id;
    queue.topics_hide.store(true, Relaxed);
    let targets = vec![ReplayTarget { topic: at.topic.clone(), partition: at.partition, to: Offset(0), topic_id }];
    let replay = Replay { group: at.group.clone(), id: "r".into(), asked_at: 1_700_000_000_000, targets };
    coordinator.replay(&replay).await.unwrap();
    let standing = async || coordinator.standing(std::slice::from_ref(&at)).await.unwrap().remove(0);
    wait_for(async || standing().await.owner.is_none()).await;
    assert_eq!(cursor(standing().await.progress), Some(Offset(0)));
    queue.topics_hide.store(false, Relaxed);
    receiver.wait_for(2).await;
    running.wait_caught_up("g").await;
    running.drain().await;
}

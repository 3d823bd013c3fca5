//! Groups on different queues and coordinators in one process.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use common::coordinator::Coordinator;
use common::queue::Queue;
use pusher::GroupSetup;
use tokio::time::Instant;

use crate::faults::{FaultyCoordinator, FaultyQueue};
use crate::receiver::{Answer, Receiver};
use crate::rig::{Rig, Running, Stores, at, cursor, group};

struct Place {
    queue: Arc<FaultyQueue>,
    coordinator: Arc<FaultyCoordinator>,
}

impl Place {
    fn of(stores: &Stores) -> Self {
        Self { queue: FaultyQueue::around(stores.queue.clone()), coordinator: FaultyCoordinator::around(stores.coordinator.clone()) }
    }

    fn setup(&self, name: &str, receiver: &Receiver) -> GroupSetup {
        on(&self.queue, &self.coordinator, name, receiver)
    }
}

fn on(queue: &Arc<FaultyQueue>, coordinator: &Arc<FaultyCoordinator>, name: &str, receiver: &Receiver) -> GroupSetup {
    GroupSetup { config: group(name, receiver.address, &["t"]), queue: queue.clone(), coordinator: coordinator.clone() }
}

/// Two data folders, each with a topic; the pusher's own admin API answers from the first.
struct Two {
    _rigs: (Rig, Rig),
    here: Place,
    there: Place,
    other: Stores,
}

fn two() -> (Two, Stores) {
    let rigs = (Rig::new(), Rig::new());
    let (first, other) = (rigs.0.open(), rigs.1.open());
    let (here, there) = (Place::of(&first), Place::of(&other));
    (Two { _rigs: rigs, here, there, other }, first)
}

fn start(first: Stores, two: &Two, setups: &[GroupSetup]) -> Running {
    let (queue, coordinator): (Arc<dyn Queue>, Arc<dyn Coordinator>) = (two.here.queue.clone(), two.here.coordinator.clone());
    Running::start_with(first, (queue, coordinator), setups, Duration::from_secs(5))
}

async fn post(queue: &dyn Queue, value: &str) {
    let payload = common::record::Payload { key: Some("k".into()), value: Some(value.to_owned().into()), headers: Vec::new() };
    let message = common::record::Message { topic: crate::rig::named("t"), partition: None, timestamp: None, payload };
    queue.produce(message, common::queue::Ack::All).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_group_reads_its_own_queue_and_keeps_its_cursor_with_its_own_coordinator() {
    let (two, first) = two();
    let (one, other) = (Receiver::ok().await, Receiver::ok().await);
    let mixed = on(&two.here.queue, &two.there.coordinator, "mixed", &one);
    let mut running = start(first, &two, &[two.here.setup("here", &one), two.there.setup("there", &other), mixed]);
    running.wait_ready().await;
    post(&*two.here.queue, "here").await;
    post(&*two.there.queue, "there").await;
    for name in ["here", "there", "mixed"] {
        running.wait_until(name, |partition| partition["lag"] == 0 && !partition["live"].is_null()).await;
    }
    let bodies = |receiver: &Receiver| receiver.log().iter().map(|received| received.body.clone()).collect::<Vec<_>>();
    one.wait_for(2).await;
    assert_eq!((bodies(&one), bodies(&other)), (vec!["here".to_owned(); 2], vec!["there".to_owned()]));
    let groups =
        async |coordinator: &FaultyCoordinator| coordinator.members().await.unwrap().remove(0).groups.into_keys().collect::<Vec<_>>();
    assert_eq!(groups(&two.here.coordinator).await, ["here"]);
    assert_eq!(groups(&two.there.coordinator).await, ["mixed", "there"]);
    running.drain().await;
    drop(two.other);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_does_not_answer_holds_up_its_own_groups_only() {
    let (two, first) = two();
    let receiver = Receiver::ok().await;
    two.there.coordinator.births_fail.store(true, Relaxed);
    let mut running = start(first, &two, &[two.here.setup("here", &receiver), two.there.setup("there", &receiver)]);
    post(&*two.here.queue, "here").await;
    assert_eq!(receiver.wait_for(1).await[0].body, "here");
    let missing = running.missing();
    assert!(
        missing.iter().any(|missing| missing.contains("group there")) && !missing.iter().any(|missing| missing.contains("group here")),
        "{missing:?}"
    );
    two.there.coordinator.births_fail.store(false, Relaxed);
    running.wait_ready().await;
    post(&*two.there.queue, "there").await;
    receiver.wait_for(2).await;
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_does_not_answer_holds_up_its_own_groups_only() {
    let (two, first) = two();
    let receiver = Receiver::ok().await;
    two.there.queue.metadata_hangs.store(true, Relaxed);
    let same_coordinator = on(&two.there.queue, &two.here.coordinator, "waits", &receiver);
    let mut running = start(first, &two, &[two.here.setup("serves", &receiver), same_coordinator]);
    post(&*two.here.queue, "here").await;
    assert_eq!(receiver.wait_for(1).await[0].body, "here");
    two.there.queue.metadata_hangs.store(false, Relaxed);
    two.there.queue.released.notify_waiters();
    running.wait_ready().await;
    post(&*two.there.queue, "there").await;
    assert_eq!(receiver.wait_for(2).await[1].body, "there");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_moves_to_another_coordinator_is_never_served_by_both() {
    let (two, first) = two();
    let receiver = Receiver::answering(|_| Answer::After(Duration::from_millis(400), 200)).await;
    let mut running = start(first, &two, &[two.here.setup("g", &receiver)]);
    running.wait_ready().await;
    post(&*two.here.queue, "one").await;
    receiver.wait_for(1).await;
    let moved = on(&two.here.queue, &two.there.coordinator, "g", &receiver);
    running.reload_to(vec![moved]).await.unwrap();
    assert_eq!(receiver.answered().len(), 1, "the open attempt has ended before the other fleet serves the group");
    receiver.wait_for(2).await;
    running.wait_until("g", |partition| partition["lag"] == 0 && partition["owner"] == "me").await;
    let here = two.here.coordinator.standing(&[at("g", "t", 0)]).await.unwrap().remove(0);
    assert_eq!(here.owner, None);
    assert!(two.there.coordinator.standing(&[at("g", "t", 0)]).await.unwrap().remove(0).owner.is_some());
    let left = async {
        while !two.here.coordinator.members().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), left).await.expect("a fleet without groups is left");
    let began = Instant::now();
    running.reload_to(vec![two.here.setup("g", &receiver)]).await.unwrap();
    running.wait_until("g", |partition| partition["lag"] == 0 && partition["owner"] == "me").await;
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(cursor(two.here.coordinator.standing(&[at("g", "t", 0)]).await.unwrap().remove(0).progress).unwrap().0, 1);
    running.drain().await;
}

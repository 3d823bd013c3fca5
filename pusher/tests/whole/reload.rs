use std::collections::HashMap;
use std::time::Duration;

use common::coordinator::Coordinator;
use common::ids::GroupName;
use pusher::StartError;
use tokio::time::Instant;

use crate::receiver::{Answer, Received, Receiver};
use crate::rig::{Rig, Running, at, cursor, group, named};

fn names(groups: &[GroupName]) -> Vec<&str> {
    groups.iter().map(GroupName::as_str).collect()
}

async fn epoch(running: &Running, group: &str) -> u64 {
    running.get(&format!("/groups/{group}")).await.1["partitions"][0]["live"]["epoch"].as_u64().unwrap()
}

fn times(log: &[Received]) -> HashMap<String, u32> {
    log.iter().fold(HashMap::new(), |mut times, received| {
        *times.entry(received.body.clone()).or_default() += 1;
        times
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_group_goes_on_at_its_new_url_although_it_has_records_in_retry() {
    let fails = |received: &Received| if received.body.starts_with("bad") { Answer::Status(500) } else { Answer::Status(200) };
    let (rig, old, new) = (Rig::new(), Receiver::answering(fails).await, Receiver::ok().await);
    let (other, third) = (Receiver::answering(|_| Answer::After(Duration::from_millis(300), 200)).await, Receiver::ok().await);
    let (a, b, same) = (group("a", old.address, &["t"]), group("b", other.address, &["t"]), group("same", third.address, &["t"]));
    let running = rig.start(&[a.clone(), b, same.clone()]).await;
    running.queue_topic("t", 1).await;
    for number in 0..50 {
        running.post("t", Some(&format!("bad{number}")), &format!("bad{number}")).await;
        running.post("t", Some(&format!("good{number}")), &format!("good{number}")).await;
    }
    running.wait_until("a", |partition| partition["live"]["pending_retries"] == 50 && partition["live"]["done_set"] == 50).await;
    running.wait_caught_up("same").await;
    let (before, epoch_before) = (third.log().len(), epoch(&running, "same").await);

    let mut changed = group("a", new.address, &["t"]);
    changed.timeout = Duration::from_secs(2);
    let fresh = Receiver::ok().await;
    let asked = Instant::now();
    let applied = running.reload(&[changed, group("c", fresh.address, &["t"]), same]).await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    assert_eq!((names(&applied.added), names(&applied.removed)), (vec!["c"], vec!["b"]));
    assert_eq!((names(&applied.changed), names(&applied.unchanged)), (vec!["a"], vec!["same"]));
    let gone_over = old.log().len();
    running.wait_caught_up("a").await;
    assert_eq!(old.log().len(), gone_over, "no attempt at the old URL once it was applied");
    let at_new = times(&new.log());
    assert!(at_new.len() == 50 && at_new.iter().all(|(body, times)| body.starts_with("bad") && *times == 1), "{at_new:?}");
    assert_eq!(running.get("/groups/a").await.1["policy"]["timeout"], "2s");
    running.wait_caught_up("c").await;
    assert_eq!(fresh.log().len(), 100);
    assert_eq!((third.log().len(), epoch(&running, "same").await), (before, epoch_before), "untouched");
    assert_eq!(running.get("/groups/b").await.0, 404);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_group_keeps_its_cursors_and_its_series_vanish() {
    let (rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::After(Duration::from_millis(100), 200)).await);
    let (removed, other) = (group("removed", receiver.address, &["t"]), Receiver::ok().await);
    let stays = group("stays", other.address, &["t"]);
    let running = rig.start(&[removed.clone(), stays.clone()]).await;
    running.queue_topic("t", 1).await;
    for number in 0..60 {
        running.post("t", Some(&number.to_string()), &number.to_string()).await;
    }
    receiver.wait_for(20).await;
    running.reload(std::slice::from_ref(&stays)).await.unwrap();
    let of_removed = |scraped: &str| scraped.lines().filter(|line| line.contains(r#"group="removed""#)).count();
    let vanished = async {
        while of_removed(&running.scrape().await) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), vanished).await.expect("nothing is left of it");
    let done = receiver.answered().len() as u64;
    let standing = running.coordinator.standing(&[at("removed", "t", 0)]).await.unwrap().remove(0);
    assert_eq!(standing.owner, None);
    let progress = standing.progress.unwrap();
    assert_eq!(progress.cursor.0 + progress.done.count_in(progress.cursor.0..60), done, "what was open could end");
    assert_eq!(receiver.log().len() as u64, done, "and nothing began after that");
    running.reload(&[removed, stays]).await.unwrap();
    running.wait_caught_up("removed").await;
    assert!(times(&receiver.log()).values().all(|times| *times == 1), "nothing was delivered twice");
    assert_eq!(receiver.log().len(), 60);
    assert!(running.scrape().await.contains(r#"mqgate_delivered_total{group="removed",topic="t"} "#), "counted again");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_reloads_at_once_the_last_wins() {
    let (rig, first, second, third) = (Rig::new(), Receiver::ok().await, Receiver::ok().await, Receiver::ok().await);
    let to = |receiver: &Receiver| vec![group("g", receiver.address, &["t"])];
    let running = rig.start(&to(&first)).await;
    running.post("t", Some("k"), "one").await;
    running.wait_caught_up("g").await;
    let (to_second, to_third) = (to(&second), to(&third));
    let later = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        running.reload(&to_third).await.unwrap();
    };
    let (one, ()) = tokio::join!(running.reload(&to_second), later);
    assert_eq!(names(&one.unwrap().changed), ["g"]);
    running.post("t", Some("k"), "two").await;
    assert_eq!(third.wait_for(1).await[0].body, "two");
    running.wait_caught_up("g").await;
    assert_eq!((first.log().len(), second.log().len(), third.log().len()), (1, 0, 1));
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_hangs_holds_up_neither_the_reload_nor_the_next_attempt_for_long() {
    let (rig, hanging, new) = (Rig::new(), Receiver::answering(|_| Answer::Hang).await, Receiver::ok().await);
    let mut slow = group("g", hanging.address, &["t"]);
    slow.timeout = Duration::from_secs(1);
    let running = rig.start(&[slow]).await;
    running.post("t", Some("k"), "x").await;
    hanging.wait_for(1).await;
    let asked = Instant::now();
    running.reload(&[group("g", new.address, &["t"])]).await.unwrap();
    assert!(asked.elapsed() < Duration::from_millis(900), "{:?}", asked.elapsed());
    let log = new.wait_for(1).await;
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    assert_eq!(log[0].body, "x");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_fails_changes_nothing() {
    let mut rig = Rig::new();
    rig.options.max_topics = 1;
    let (old, new) = (Receiver::ok().await, Receiver::ok().await);
    let running = rig.start(&[group("g", old.address, &["t"])]).await;
    running.queue_topic("t", 1).await;
    let mut impossible = group("other", new.address, &["t"]);
    (impossible.bypass_failed, impossible.dead_letter_topic) = (true, Some(named("no-room")));
    let failed = running.reload(&[group("g", new.address, &["t"]), impossible]).await.unwrap_err();
    assert!(matches!(failed, StartError::DeadLetterTopic { .. }), "{failed}");
    running.post("t", Some("k"), "x").await;
    assert_eq!(old.wait_for(1).await[0].body, "x");
    running.wait_caught_up("g").await;
    assert_eq!(new.log().len(), 0);
    let birth = running.coordinator.standing(&[at("other", "t", 0)]).await.unwrap().remove(0);
    assert_eq!(cursor(birth.progress), None);
    assert_eq!(running.get("/groups/other").await.0, 404);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_is_told_of_the_groups_as_they_are_now() {
    let (rig, receiver) = (Rig::new(), Receiver::ok().await);
    let running = rig.start(&[group("g", receiver.address, &["t"])]).await;
    let listed = async || running.coordinator.members().await.unwrap().remove(0).groups.into_iter().collect::<Vec<_>>();
    let before = listed().await;
    running.reload(&[group("g", receiver.address, &["t", "u"]), group("h", receiver.address, &["v"])]).await.unwrap();
    let told = async {
        while listed().await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), told).await.unwrap();
    let now = listed().await;
    assert_eq!((now[0].0.as_str(), now[0].1.topics.len(), now[1].0.as_str()), ("g", 2, "h"));
    assert_ne!(now[0].1.config, before[0].1.config);
    running.post("u", Some("k"), "in a new topic of a known group").await;
    receiver.wait_for(1).await;
    running.drain().await;
}

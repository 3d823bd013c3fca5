//! Topics that come, grow, go, and are others than they were.

use integration_tests::kafka::{Kafka, Version};
use integration_tests::receiver::Answer;
use integration_tests::request::Seen;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_done_set_above_a_stuck_head_hides_nothing_of_the_topic_that_took_the_place() {
    let receiver = Receiver::start(|seen| Answer::Status(if seen.text() == "0" { 500 } else { 200 })).await;
    let scene = Scene::new(1, receiver, json!({"failed_sleep": "100ms", "commit_interval": "100ms"})).await;
    let mut pusher = scene.pusher("a").await;
    scene.post(&scene.cluster, 0..60, 60).await;
    let done = |seen: &[Seen]| seen.iter().filter(|seen| seen.succeeded()).count() == 59;
    scene.receiver.until("all but the first", PATIENCE, done).await;
    let node = scene.cluster.path(&format!("/consumers/g/done/{}/0", scene.topic));
    wait::until("the done set to be stored", PATIENCE, || async {
        let text = scene.cluster.tool().get(&node)?;
        (text.lines().nth(1).is_some_and(|runs| !runs.is_empty()) && scene.cluster.cursors("g", &scene.topic)[&0] == 0).then_some(())
    })
    .await;
    pusher.kill();
    scene.cluster.kafka.recreate_topic(&scene.topic, 1).await;
    scene.receiver.script(|_| Answer::Status(200));
    let acked = scene.post(&scene.cluster, 1_000..1_070, 70).await;
    pusher.spawn();
    // Also at offsets that were done in the former topic.
    let of_this_one = |seen: &[Seen]| seen.iter().filter(|seen| seen.text().len() == 4).cloned().collect::<Vec<_>>();
    scene.receiver.until("all of the new topic", PATIENCE, |seen| judge(&acked, &of_this_one(seen)).lost.is_empty()).await;
    scene.cluster.until_cursors_at_end("g", &scene.topic, PATIENCE).await;
    judge(&acked, &of_this_one(&scene.receiver.seen())).assert_nothing_lost_or_reordered();
    assert!(pusher.log().contains("the topic was created anew"), "and that is said");
}

/// While its pusher runs, with attempts of the former topic under way.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_made_again_under_a_running_pusher_is_delivered_from_its_first_record() {
    let scene = Scene::new(2, Receiver::start(|_| Answer::Status(200).after(50 * MS)).await, json!({"commit_interval": "100ms"})).await;
    let pusher = scene.pusher("a").await;
    let former = scene.post(&scene.cluster, 0..100, 20).await;
    scene.receiver.until_done(30, PATIENCE).await;
    scene.cluster.kafka.recreate_topic(&scene.topic, 2).await;
    let began = std::time::Instant::now();
    let acked = scene.post(&scene.cluster, 1_000..1_050, 20).await;
    let of_this_one = |seen: &[Seen]| seen.iter().filter(|seen| seen.text().len() == 4).cloned().collect::<Vec<_>>();
    scene.receiver.until("all of the new topic", 2 * PATIENCE, |seen| judge(&acked, &of_this_one(seen)).lost.is_empty()).await;
    eprintln!("all of the new topic was there {:?} after it was made", began.elapsed());
    scene.cluster.until_cursors_at_end("g", &scene.topic, PATIENCE).await;
    let seen = scene.receiver.seen();
    judge(&acked, &of_this_one(&seen)).assert_nothing_lost_or_reordered();
    let last_of_former = seen.iter().rposition(|seen| seen.text().len() < 4).unwrap();
    assert!(seen.len() - last_of_former > acked.len(), "nothing of the former topic is delivered beside the new one's");
    assert!(former.len() >= 100 && pusher.log().contains("the topic was created anew"), "and that is said");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_pointed_at_another_cluster_gets_all_of_it() {
    let scene = Scene::new(1, Receiver::ok().await, json!({"commit_interval": "100ms"})).await;
    let there = Cluster::of(Kafka::shared(Version::Four).await, scene.cluster.zookeeper());
    there.kafka.create_topic(&scene.topic, 1, &[]).await;
    let mut pusher = scene.pusher("a").await;
    let acked = scene.post(&scene.cluster, 0..50, 5).await;
    scene.settle(&acked).await.assert_nothing_lost_or_reordered();
    assert_eq!(pusher.terminate(PATIENCE).await.code(), Some(0));
    // Fewer than the cursor, so that it lies past the end there.
    let acked = scene.post(&there, 100..130, 5).await;
    let brokers = json!({"kafka": {"brokers": [there.kafka.brokers()]}});
    let _there = scene.setup("b").field("queue", brokers).start().await;
    let verdict = scene.until_delivered(&acked).await;
    assert_eq!(verdict.lost, vec![], "THE GUARANTEE IS BROKEN");
    wait::until("the cursor at the end there", PATIENCE, || async { (scene.cluster.cursors("g", &scene.topic)[&0] == 30).then_some(()) })
        .await;
}

/// Although the group starts at the newest, and was away when the topic came.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_message_of_a_new_topic_is_delivered_to_a_group_that_starts_at_the_newest() {
    for away in [false, true] {
        let mut scene = Scene::new(1, Receiver::ok().await, json!({"initial_from_oldest": false})).await;
        scene.topic = integration_tests::cluster::fresh("later");
        let mut pusher = scene.setup("a").start().await;
        let birth = scene.cluster.path(&format!("/mqgate/groups/g/topics/{}", scene.topic));
        wait::until("the birth", PATIENCE, || async { scene.cluster.tool().get(&birth) }).await;
        if away {
            pusher.kill();
        }
        scene.cluster.kafka.create_topic(&scene.topic, 2, &[]).await;
        let acked = scene.post(&scene.cluster, 0..1, 1).await;
        if away {
            pusher.spawn();
        }
        scene.until_delivered(&acked).await.assert_nothing_lost_or_reordered();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_added_while_the_fleet_was_down_is_delivered_from_its_first_record() {
    let scene = Scene::new(1, Receiver::ok().await, json!({"initial_from_oldest": false})).await;
    let before = scene.post(&scene.cluster, 0..5, 5).await;
    let mut pusher = scene.pusher("a").await;
    assert_eq!(pusher.terminate(PATIENCE).await.code(), Some(0));
    scene.cluster.kafka.add_partitions(&scene.topic, 4).await;
    let meanwhile = scene.post(&scene.cluster, 5..65, 60).await;
    pusher.spawn();
    scene.settle(&meanwhile).await.assert_nothing_lost_or_reordered();
    let seen = scene.receiver.seen();
    let partitions: std::collections::BTreeSet<u32> = seen.iter().map(Seen::partition).collect();
    assert!(partitions.len() > 1, "{partitions:?}");
    assert!(seen.iter().all(|seen| seen.partition() > 0 || seen.offset() >= before.len() as u64), "and nothing from before the group");
}

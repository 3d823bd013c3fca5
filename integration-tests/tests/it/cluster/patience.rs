//! Receivers that take longer than a session, and groups that have nothing to do.

use integration_tests::receiver::Answer;
use integration_tests::relay::{Flow, Relay};
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::json;

use super::*;

/// C33.
#[tokio::test(flavor = "multi_thread")]
async fn answers_slower_than_the_session_move_nothing_and_repeat_nothing() {
    // A session is 6 s.
    let receiver = Receiver::start(|_| Answer::Status(200).after(8_000 * MS)).await;
    let policy = json!({"worker_num": 8, "timeout": "40s"});
    let scene = Scene::new(Cluster::shared().await, 4, receiver, policy).await;
    let (_a, _b) = futures_util::join!(scene.pusher("a"), scene.pusher("b"));
    let before = scene.until_spread(4, &["a", "b"], Duration::from_secs(15)).await;
    let acked = scene.post(32).await;
    let verdict = scene.settle(&acked, Duration::from_secs(45)).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!((verdict.repeats, scene.receiver.count()), (0, 32));
    assert_eq!(scene.cluster.owners("g", &scene.topic), before);
    let seen = scene.receiver.seen();
    for partition in 0..4 {
        let epochs: Vec<u64> = seen.iter().filter(|s| s.partition() == partition).map(Seen::epoch).collect();
        assert!(epochs.windows(2).all(|pair| pair[0] == pair[1]), "still a member all the time: {epochs:?}");
    }
}

/// C34: the cursor is the group's, whatever Kafka remembers of groups.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_long_idle_time_the_next_message_is_all_that_is_pushed() {
    let scene = Scene::new(Cluster::shared().await, 3, Receiver::ok().await, json!({})).await;
    let mut pusher = scene.pusher("a").await;
    let acked = scene.post(1_000).await;
    scene.settle(&acked, Duration::from_secs(20)).await;
    // Up, and idle for more than a session.
    tokio::time::sleep(integration_tests::cluster::SESSION + 2_000 * MS).await;
    let mut next = scene.post(1).await;
    scene.settle(&next, Duration::from_secs(5)).await;
    // Down, and a message meanwhile.
    assert_eq!(pusher.terminate(Duration::from_secs(10)).await.code(), Some(0));
    next.extend(scene.post(1).await);
    pusher.restart().await;
    let verdict = scene.settle(&next, Duration::from_secs(10)).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(scene.receiver.count(), 1_002, "neither again nor skipped");
    // Kafka could forget nothing: it was told of no position.
    let config = scene.cluster.kafka.client_config();
    let groups = tokio::task::spawn_blocking(move || {
        let client: BaseConsumer = config.create().unwrap();
        client.fetch_group_list(None, Duration::from_secs(10)).unwrap().groups().iter().map(|g| g.name().to_owned()).collect::<Vec<_>>()
    });
    let groups = groups.await.unwrap();
    assert!(groups.iter().all(|name| !name.contains("mqgate")), "{groups:?}");
}

/// C46: cursors that take two seconds to be stored are waited for, and new attempts are not begun meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_zookeeper_is_waited_for_at_the_stop_so_that_nothing_is_repeated() {
    let receiver = Receiver::start(|_| Answer::Status(200).after(500 * MS)).await;
    let policy = json!({"worker_num": 64, "commit_interval": "10s", "timeout": "10s"});
    let scene = Scene::new(Cluster::shared().await, 4, receiver, policy).await;
    let relay = Relay::start(scene.cluster.zookeeper()).await;
    let mut pusher = scene.pusher_by("a", relay.addr()).await;
    let records: Vec<String> = (0..1_000).map(|n| format!("k{n}")).collect();
    let records: Vec<_> = records.iter().map(|key| (Some(key.as_str()), Some("x"))).collect();
    scene.cluster.produce(&scene.topic, &records).await;
    scene.receiver.until_count(200, Duration::from_secs(10)).await;
    relay.to_server(Flow::Delay(2_000 * MS));
    let asked = Instant::now();
    assert_eq!(pusher.terminate(Duration::from_secs(20)).await.code(), Some(0), "{}", pusher.log());
    eprintln!("it ended {:?} after SIGTERM", asked.elapsed());
    relay.to_server(Flow::Pass);
    let late = scene.receiver.seen().iter().filter(|s| s.at > asked + 150 * MS).count();
    assert_eq!(late, 0, "attempts that began after SIGTERM");
    let done = scene.receiver.seen().iter().filter(|s| s.succeeded()).count();
    pusher.restart().await;
    scene.cluster.until_cursors_at_end("g", &scene.topic, Duration::from_secs(30)).await;
    let verdict = judge(&[], &scene.receiver.seen());
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!((verdict.delivered, verdict.repeats), (1_000, 0), "of {done} that were done at the exit");
}

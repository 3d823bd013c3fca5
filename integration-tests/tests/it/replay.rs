//! Replays by time, at their edges (C70).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use integration_tests::backend::{Backend, Site};
use integration_tests::cluster::{Cluster, fresh};
use integration_tests::gateway::{Gateway, Setup, group};
use integration_tests::kafka::{Kafka, Version};
use integration_tests::receiver::Receiver;
use integration_tests::wait;
use serde_json::{Value, json};

on_each_backend! {
    a_replay_begins_in_each_partition_at_its_first_record_of_that_time_or_later,
}

/// In partitions 0 and 1, milliseconds after a time in the past; the second out of order, partition 2 empty.
const TIMES: [&[u64]; 2] = [&[0, 1_000, 2_000], &[5_000, 9_000, 6_000]];

/// Moves the cursors of `g`, or says what it would do.
async fn replay(pusher: &Gateway, body: &Value) -> (u16, Value) {
    let url = format!("http://{}/v1/groups/g/replay", pusher.admin);
    let answer = reqwest::Client::new().post(url).json(body).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap())
}

/// As RFC 3339 writes it.
fn text(time_ms: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(time_ms)).to_string()
}

/// Old and new cursor of each partition.
fn moved(answer: &Value) -> Vec<(u64, u64)> {
    let partitions = answer["partitions"].as_array().unwrap_or_else(|| panic!("{answer:#}"));
    let mut moved: Vec<_> =
        partitions.iter().map(|p| (p["partition"].as_u64(), (p["old"].as_u64().unwrap(), p["new"].as_u64().unwrap()))).collect();
    moved.sort_unstable();
    moved.into_iter().map(|(_, cursors)| cursors).collect()
}

async fn a_replay_begins_in_each_partition_at_its_first_record_of_that_time_or_later(backend: Backend) {
    // An hour ago.
    let old = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap() - 3_600_000;
    let time = |after_ms: u64| text(old + after_ms);
    let receiver = Receiver::ok().await;
    let policy = json!({"commit_interval": "100ms"});
    let setup = Setup::groups([group("g", "t", &receiver.url(), &policy)]).embedded("partitions", json!(3));
    let site = Site::start(backend, setup).await;
    let (http, url) = (reqwest::Client::new(), site.proxy().topic_url(&site.topic("t")));
    for (partition, times) in TIMES.iter().enumerate() {
        for (offset, after_ms) in times.iter().enumerate() {
            let post = http.post(format!("{url}?partition={partition}&timestamp={}", old + after_ms));
            assert_eq!(post.body(format!("{partition}/{offset}")).send().await.unwrap().status(), 200);
        }
    }
    let pusher = &site.pusher;
    receiver.until_done(6, Duration::from_secs(10)).await;
    // That is stored too: a replay moves what is stored.
    pusher.until_caught_up("g", Duration::from_secs(5)).await;
    until_stored(pusher, &[3, 3, 0]).await;
    let edges = [
        ("1969-12-31T23:59:59Z".to_owned(), [0, 0, 0]),
        (text(old - 1), [0, 0, 0]),
        (time(1_000), [1, 0, 0]),
        (time(1_001), [2, 0, 0]),
        (time(5_500), [3, 1, 0]),
        // After all: nothing is replayed, and nothing skipped.
        (time(9_001), [3, 3, 0]),
    ];
    for (from, new) in edges {
        let (status, answer) = replay(pusher, &json!({"from": from, "dry_run": true})).await;
        assert_eq!((status, moved(&answer)), (200, [3, 3, 0].into_iter().zip(new).collect()), "{from}");
    }
    for from in [json!(old / 1_000), json!(old * 1_000), json!(-1), json!("1700000000"), json!("1700000000000000"), json!("yesterday")] {
        let (status, answer) = replay(pusher, &json!({"from": from})).await;
        assert_eq!((status, &answer["code"]), (400, &json!("malformed")), "{from}: {answer}");
    }
    assert_eq!(receiver.count(), 6, "so far nothing was moved");
    let (status, answer) = replay(pusher, &json!({"from": time(1_500)})).await;
    assert_eq!((status, moved(&answer)), (200, vec![(3, 2), (3, 0), (0, 0)]), "{answer}");
    let seen = receiver.until_done(10, Duration::from_secs(10)).await;
    let mut again: Vec<&str> = seen[6..].iter().map(|s| s.text()).collect();
    again.sort_unstable();
    assert_eq!(again, ["0/2", "1/0", "1/1", "1/2"]);
    until_stored(pusher, &[3, 3, 0]).await;
    assert_eq!(receiver.count(), 10);
}

/// Until these are the cursors that a restart would begin with.
async fn until_stored(pusher: &Gateway, cursors: &[u64]) {
    wait::until_right(Duration::from_secs(10), || async {
        let answer = pusher.admin_get("/v1/groups/g/cursors").await;
        let mut stored: Vec<_> =
            answer["cursors"].as_array().unwrap().iter().map(|c| (c["partition"].as_u64(), c["cursor"].as_u64())).collect();
        stored.sort_unstable();
        let stored: Vec<u64> = stored.into_iter().map(|(_, cursor)| cursor.unwrap_or(0)).collect();
        if stored == cursors { Ok(()) } else { Err(format!("{stored:?} are stored, not {cursors:?}")) }
    })
    .await;
}

/// One of two partitions is on a broker that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn while_one_partition_has_no_leader_a_replay_fails_and_moves_none() {
    let mut kafka = Kafka::start(Version::Four).await;
    kafka.start_second().await;
    let topic = fresh("leaderless");
    kafka.create_topic_on_each(&topic).await;
    let shared = Cluster::shared().await;
    let mut cluster = Cluster::of(std::sync::Arc::new(kafka), shared.zookeeper());
    let receiver = Receiver::ok().await;
    let pusher = cluster.pusher("p", [group("g", &topic, &receiver.url(), &json!({"commit_interval": "100ms"}))]).start().await;
    cluster.produce(&topic, &[(None, Some("x")); 50]).await;
    receiver.until_done(50, Duration::from_secs(20)).await;
    cluster.until_cursors_at_end("g", &topic, Duration::from_secs(10)).await;
    let before = cluster.cursors("g", &topic);
    assert!(before.len() == 2 && before.values().all(|cursor| *cursor > 0), "both have records: {before:?}");
    cluster.own_kafka().kill_second();
    let (status, answer) = wait::until("a replay that fails", Duration::from_secs(30), async || {
        let (status, answer) = replay(&pusher, &json!({"from": "2020-01-01T00:00:00Z", "id": "half", "dry_run": true})).await;
        (status != 200).then_some((status, answer))
    })
    .await;
    assert_eq!((status, &answer["code"]), (503, &json!("unavailable")), "{answer}");
    let (status, answer) = replay(&pusher, &json!({"from": "2020-01-01T00:00:00Z", "id": "half"})).await;
    assert_eq!((status, &answer["code"]), (503, &json!("unavailable")), "{answer}");
    // Which partition, or, where even what there is was not to be had, which cluster.
    let (detail, brokers) = (answer["detail"].as_str().unwrap(), cluster.kafka.brokers());
    assert!(detail.contains(&topic) || detail.contains(&brokers), "it says what does not answer: {answer}");
    assert_eq!(cluster.cursors("g", &topic), before);
    assert_eq!(receiver.count(), 50);
}

//! Every time that the file can set, measured: never earlier, at most 10 % + 300 ms later (C69). What only
//! Kafka and `ZooKeeper` give a meaning to is in `cluster/timeouts.rs`; of a policy, in `policy.rs`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use integration_tests::backend::{Backend, Site};
use integration_tests::gateway::{Setup, group};
use integration_tests::producer::Producer;
use integration_tests::raw::Connection;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::shim::Syncs;
use integration_tests::wait::{self, assert_on_time, assert_timed_out_on_time};
use serde_json::{Value, json};

const MS: Duration = Duration::from_millis(1);

on_each_backend! {
    the_proxy_waits_for_heads_bodies_and_idle_clients_as_long_as_the_file_says,
    the_proxy_drains_as_long_as_the_file_says,
    a_slow_answer_is_waited_for_as_long_as_each_group_says,
    pauses_double_from_initial_to_max,
    connections_are_dropped_when_idle_and_when_old_as_the_file_says,
    a_dead_receiver_is_asked_no_more_often_than_failed_sleep_says,
}

/// Whose receiver nobody calls.
fn unused() -> Value {
    group("unused", "t", "http://127.0.0.1:9/", &json!({}))
}

async fn the_proxy_waits_for_heads_bodies_and_idle_clients_as_long_as_the_file_says(backend: Backend) {
    let setup = Setup::groups([unused()]).proxy("head_timeout", json!("700ms")).proxy("body_timeout", json!("1s"));
    let site = Site::start(backend, setup.proxy("idle_timeout", json!("1300ms"))).await;
    let limits = [
        ("head_timeout", "P", 700, Some(408)),
        ("body_timeout", "POST /topics/t HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\n\r\nhel", 1_000, Some(408)),
        ("idle_timeout", "", 1_300, None),
    ];
    for (name, bytes, asked_ms, status) in limits {
        let mut connection = Connection::open(site.proxy().api).await;
        let started = Instant::now();
        connection.send(bytes).await;
        let reply = connection.reply(Duration::from_secs(4)).await;
        assert_on_time(name, started.elapsed(), asked_ms * MS);
        assert_eq!(reply.map(|r| r.status), status, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_is_waited_for_as_long_as_produce_timeout_says() {
    let dir = tempfile::tempdir().unwrap();
    let syncs = Syncs::new(dir.path());
    let mut setup = Setup::default().proxy("produce_timeout", json!("900ms"));
    setup.environment = syncs.environment();
    let gateway = setup.start().await;
    let producer = Producer::new(gateway.api, "t");
    producer.plain(None, &[], Bytes::from_static(b"first")).await.unwrap();
    syncs.delay(Duration::from_secs(3));
    let started = Instant::now();
    let refused = producer.plain(None, &[], Bytes::from_static(b"x")).await.unwrap_err();
    assert_on_time("produce_timeout", started.elapsed(), 900 * MS);
    assert_eq!(refused.status, Some(504), "it may have been written: {refused:?}");
}

async fn the_proxy_drains_as_long_as_the_file_says(backend: Backend) {
    let setup = Setup::groups([unused()]).proxy("drain_timeout", json!("800ms")).proxy("body_timeout", json!("30s"));
    let mut site = Site::start(backend, setup).await;
    let mut connection = Connection::open(site.proxy().api).await;
    connection.send("POST /topics/t HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\n\r\nhel").await;
    tokio::time::sleep(100 * MS).await;
    let started = Instant::now();
    let status = site.proxy_mut().terminate(Duration::from_secs(5)).await;
    assert_on_time("proxy.drain_timeout", started.elapsed(), 800 * MS);
    assert_eq!(status.code(), Some(0), "{}", site.proxy().log());
}

async fn a_slow_answer_is_waited_for_as_long_as_each_group_says(backend: Backend) {
    let receiver = Receiver::start(|s| if s.attempt() == 0 { Answer::Status(200).after(2_500 * MS) } else { Answer::Status(200) }).await;
    let at = |path: &str| format!("http://{}/{path}", receiver.addr);
    let pause = json!({"initial": "1ms", "max": "1ms"});
    let short = json!({"timeout": "2s", "retry_times": 1, "retry_backoff": pause});
    let default = json!({"retry_times": 1, "retry_backoff": pause});
    let groups = [
        group("long", "t", &at("long"), &json!({"timeout": "6s"})),
        group("short", "t", &at("short"), &short),
        group("default", "t", &at("default"), &default),
    ];
    let site = Site::start(backend, Setup::groups(groups)).await;
    site.producer("t").plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
    let seen = receiver.until_done(3, Duration::from_secs(6)).await;
    let tries = |path: &str| seen.iter().filter(|s| s.target == path).map(|s| s.at).collect::<Vec<_>>();
    assert_eq!(tries("/long").len(), 1, "6 s are enough for 2.5 s");
    assert_timed_out_on_time("timeout 2s", tries("/short")[1] - tries("/short")[0], 2_000 * MS);
    assert_timed_out_on_time("timeout by default", tries("/default")[1] - tries("/default")[0], 1_000 * MS);
}

async fn pauses_double_from_initial_to_max(backend: Backend) {
    let receiver = Receiver::start(|s| Answer::Status(if s.attempt() < 5 { 500 } else { 200 })).await;
    let policy = json!({"retry_times": 5, "retry_backoff": {"initial": "200ms", "max": "600ms"}});
    let site = Site::start(backend, Setup::groups([group("g", "t", &receiver.url(), &policy)])).await;
    site.producer("t").plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
    let seen = receiver.until_done(1, Duration::from_secs(8)).await;
    for (pair, whole_ms) in seen.windows(2).zip([200_u32, 400, 600, 600, 600]) {
        let took = pair[1].at - pair[0].answered.unwrap();
        let (least, most) = (whole_ms * MS / 2, whole_ms * MS * 11 / 10 + 300 * MS);
        assert!(took + 2 * MS >= least && took <= most, "between half and whole of {whole_ms} ms: {took:?}");
    }
}

async fn connections_are_dropped_when_idle_and_when_old_as_the_file_says(backend: Backend) {
    let receiver = Receiver::ok().await;
    let at = |path: &str| format!("http://{}/{path}", receiver.addr);
    let idle = json!({"idle_timeout": "400ms", "connection_max_age": "1m"});
    let old = json!({"idle_timeout": "1m", "connection_max_age": "1s"});
    let groups = [group("idle", "idle", &at("idle"), &idle), group("old", "old", &at("old"), &old)];
    let site = Site::start(backend, Setup::groups(groups)).await;
    let push = async |topic: &str| {
        let before = receiver.count();
        site.producer(topic).plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
        receiver.until_done(before + 1, Duration::from_secs(3)).await.last().unwrap().connection
    };
    let first = push("idle").await;
    assert_eq!(push("idle").await, first, "used again at once");
    tokio::time::sleep(700 * MS).await;
    assert_ne!(push("idle").await, first, "not after idle_timeout");
    let posted = Instant::now();
    let first = push("old").await;
    // The first message to a topic takes its time, in which there is no connection yet.
    let born = receiver.seen().last().unwrap().at;
    while push("old").await == first {
        tokio::time::sleep(20 * MS).await;
    }
    let (since_post, last) = (posted.elapsed(), born.elapsed());
    assert!(since_post >= 1_000 * MS && last <= 1_400 * MS, "connection_max_age: after {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_since_the_last_commit_interval_is_repeated_and_nothing_older() {
    for (interval, repeated) in [("200ms", false), ("1h", true)] {
        let receiver = Receiver::ok().await;
        let policy = json!({"commit_interval": interval});
        let mut gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).embedded("partitions", json!(1)).start().await;
        let producer = Producer::new(gateway.api, "t");
        for n in 0..10 {
            producer.plain(Some(&format!("k{n}")), &[], Bytes::from_static(b"x")).await.unwrap();
        }
        receiver.until_done(10, Duration::from_secs(3)).await;
        tokio::time::sleep(700 * MS).await;
        gateway.kill();
        receiver.clear();
        gateway.restart().await;
        gateway.until_caught_up("g", Duration::from_secs(5)).await;
        wait::until("what is repeated", Duration::from_secs(2), || async { (repeated == (receiver.count() > 0)).then_some(()) }).await;
    }
}

async fn a_dead_receiver_is_asked_no_more_often_than_failed_sleep_says(backend: Backend) {
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    let setup = Setup::groups([group("g", "t", &receiver.url(), &json!({"failed_sleep": "1500ms"}))]);
    let site = Site::start(backend, setup).await;
    site.producer("t").plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
    let seen = receiver.until_count(3, Duration::from_secs(6)).await;
    for pair in seen.windows(2) {
        assert_on_time("failed_sleep", pair[1].at - pair[0].answered.unwrap(), 1_500 * MS);
    }
}

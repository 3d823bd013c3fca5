//! `kill -9`, slow and failing disks, a full disk, a second process.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use integration_tests::backend::{Backend, Site};
use integration_tests::gateway::{Setup, group};
use integration_tests::ledger::{Acked, judge, repeated_too_much};
use integration_tests::payloads::{examples, sample};
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::shim::Syncs;
use integration_tests::small_disk::SmallDisk;
use serde_json::json;
use tokio_util::sync::CancellationToken;

const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
/// What was done when a commit began is stored when it ends, which takes two syncs of a busy disk.
const SLOWEST_COMMIT: Duration = Duration::from_millis(900);

/// 64 clients, each with keys of its own, post until told to stop or the gateway goes away.
async fn post_until(producer: &Producer, run: usize, stop: &CancellationToken) -> Vec<Acked> {
    let clients = stream::iter(0..64).map(|client| async move {
        let mut acked = Vec::new();
        for n in 0.. {
            let sample = sample(client * 31 + n, 3);
            let key = format!("{run}.{client}.{}", n % 5);
            match stop.run_until_cancelled(producer.plain(Some(&key), &[], sample.body)).await {
                Some(Ok(message)) => acked.push(message),
                Some(Err(refused)) if refused.status.is_some() => panic!("{refused:?}"),
                Some(Err(_)) | None => break,
            }
        }
        acked
    });
    clients.buffer_unordered(64).concat().await
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_under_64_clients_loses_nothing_acknowledged_twenty_times() {
    let receiver = Receiver::start(|_| Answer::Status(200).after(Duration::from_millis(1))).await;
    let policy = json!({"worker_num": 32, "commit_interval": "100ms"});
    let mut gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).start().await;
    let producer = Producer::new(gateway.api, "t");
    assert_eq!(examples().len(), 329);
    let mut acked = Vec::new();
    let mut kills = Vec::new();
    for run in 0..20_usize {
        let stop = CancellationToken::new();
        let posting = tokio::spawn({
            let (producer, stop) = (producer.clone(), stop.clone());
            async move { post_until(&producer, run, &stop).await }
        });
        tokio::time::sleep(Duration::from_millis(350 + 37 * (run as u64 % 7))).await;
        gateway.kill();
        kills.push(Instant::now());
        stop.cancel();
        let got = posting.await.unwrap();
        assert!(!got.is_empty(), "run {run} posted nothing");
        acked.extend(got);
        gateway.restart().await;
    }
    gateway.until_caught_up("g", Duration::from_secs(20)).await;
    let seen = receiver.seen();
    let verdict = judge(&acked, &seen);
    assert!(verdict.lost.is_empty(), "THE GUARANTEE IS BROKEN: {} lost of {}: {:?}", verdict.lost.len(), acked.len(), verdict.lost.first());
    assert!(verdict.altered.is_empty() && verdict.reordered.is_empty(), "THE GUARANTEE IS BROKEN: {verdict:?}");
    for kill in &kills {
        let bad = repeated_too_much(&seen, *kill, COMMIT_INTERVAL + SLOWEST_COMMIT);
        assert!(bad.is_empty(), "{} records were repeated although done long before the crash: {:?}", bad.len(), bad.first());
    }
    eprintln!("20 kills: {} acknowledged, {} delivered, {} repeats", acked.len(), verdict.delivered, verdict.repeats);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_repeats_no_done_record_behind_a_stuck_one() {
    let receiver = Receiver::start(|s| Answer::Status(if s.key() == Some("stuck") { 500 } else { 200 })).await;
    let policy = json!({"worker_num": 64, "commit_interval": "500ms", "failed_sleep": "1s"});
    let mut gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).embedded("partitions", json!(1)).start().await;
    let producer = Producer::new(gateway.api, "t");
    producer.plain(Some("stuck"), &[], Bytes::from_static(b"x")).await.unwrap();
    for chunk in 0..20 {
        let lines: Vec<(String, Bytes)> = (0..1_000).map(|n| (format!("k{}", n % 977), Bytes::from(format!("{chunk}.{n}")))).collect();
        producer.batch(&lines, &json!({})).await;
    }
    receiver.until_done(20_000, Duration::from_secs(30)).await;
    gateway.until_stored("g", Duration::from_secs(10)).await;
    let group = gateway.group("g").await;
    assert_eq!(group["partitions"][0]["cursor"], 0, "{group}");
    gateway.kill();
    receiver.clear();
    gateway.restart().await;
    receiver.until("the stuck one", Duration::from_secs(5), |seen| seen.iter().any(|s| s.key() == Some("stuck"))).await;
    receiver.script(|_| Answer::Status(200));
    gateway.until_caught_up("g", Duration::from_secs(10)).await;
    let again = receiver.seen().iter().filter(|s| s.key() != Some("stuck")).count();
    assert_eq!(again, 0, "done and stored before the crash, delivered again after it");
}

on_each_backend! {
    the_cursor_stands_at_the_oldest_unfinished_record_when_killed,
}

async fn the_cursor_stands_at_the_oldest_unfinished_record_when_killed(backend: Backend) {
    let receiver = Receiver::start(|s| if s.offset() == 5 { Answer::Hang } else { Answer::Status(200) }).await;
    let policy = json!({"timeout": "60s", "commit_interval": "200ms", "connect_timeout": "1s"});
    let setup = Setup::groups([group("g", "t", &receiver.url(), &policy)]).embedded("partitions", json!(1));
    let mut site = Site::start(backend, setup).await;
    let producer = site.producer("t");
    for n in 0..100 {
        producer.plain(Some(&format!("k{n}")), &[], Bytes::from(n.to_string())).await.unwrap();
    }
    receiver.until_done(99, Duration::from_secs(10)).await;
    site.pusher.until_stored("g", Duration::from_secs(10)).await;
    assert_eq!(site.pusher.group("g").await["partitions"][0]["cursor"], 5);
    site.pusher.kill();
    receiver.script(|_| Answer::Status(200));
    receiver.clear();
    site.pusher.restart().await;
    receiver.until("offset 5", Duration::from_secs(15), |seen| seen.iter().any(|s| s.offset() == 5)).await;
    site.pusher.until_caught_up("g", Duration::from_secs(5)).await;
    assert_eq!(site.pusher.group("g").await["partitions"][0]["cursor"], 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_200_and_no_push_comes_before_its_sync() {
    let receiver = Receiver::ok().await;
    let dir = tempfile::tempdir().unwrap();
    let syncs = Syncs::new(dir.path());
    let mut setup = Setup::groups([group("g", "t", &receiver.url(), &json!({}))]);
    setup.environment = syncs.environment();
    let gateway = setup.proxy("produce_timeout", json!("20s")).start().await;
    let producer = Producer::new(gateway.api, "t");
    producer.plain(Some("k"), &[], Bytes::from_static(b"first")).await.unwrap();
    let before = syncs.count();
    syncs.delay(Duration::from_secs(2));
    let started = Instant::now();
    let answers: Vec<Duration> = stream::iter(0..20)
        .map(|n| {
            let (producer, syncs) = (producer.clone(), &syncs);
            async move {
                producer.plain(Some(&format!("k{n}")), &[], Bytes::from_static(b"slow")).await.unwrap();
                assert!(syncs.count() > before, "a 200 before any sync had returned");
                started.elapsed()
            }
        })
        .buffer_unordered(20)
        .collect()
        .await;
    let seen = receiver.until_done(21, Duration::from_secs(10)).await;
    for took in answers {
        assert!(took >= Duration::from_millis(1_990), "answered {took:?} after the POST, with syncs of 2 s");
    }
    for push in seen.iter().filter(|s| s.text() == "slow") {
        assert!(push.at - started >= Duration::from_millis(1_990), "pushed before its sync");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_stops_writes_until_a_restart() {
    let receiver = Receiver::ok().await;
    let dir = tempfile::tempdir().unwrap();
    let syncs = Syncs::new(dir.path());
    // Neither a cursor nor a claim is to be what fails first.
    let mut setup = Setup::groups([group("g", "t", &receiver.url(), &json!({"commit_interval": "1h"}))]);
    setup.environment = syncs.environment();
    let mut gateway = setup.start().await;
    let producer = Producer::new(gateway.api, "t");
    let mut acked = vec![producer.plain(Some("k"), &[], Bytes::from_static(b"before")).await.unwrap()];
    gateway.until_served("g", 4).await;
    syncs.fail();
    let refused = producer.plain(Some("k"), &[], Bytes::from_static(b"during")).await.unwrap_err();
    assert_eq!(refused.status, Some(504), "what a failed sync leaves on the disk, nobody knows: {refused:?}");
    syncs.obey_the_disk();
    let refused = producer.plain(Some("k"), &[], Bytes::from_static(b"after")).await.unwrap_err();
    assert_eq!(refused.status, Some(503), "{refused:?}");
    assert!(refused.body.contains("restart"), "it says what to do: {}", refused.body);
    let ready = producer.http.get(format!("http://{}/readyz", gateway.admin)).send().await.unwrap();
    assert_eq!(ready.status(), 503);
    gateway.kill();
    gateway.restart().await;
    acked.push(producer.plain(Some("k"), &[], Bytes::from_static(b"again")).await.unwrap());
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
    let verdict = judge(&acked, &receiver.seen());
    assert!(verdict.lost.is_empty() && verdict.reordered.is_empty(), "THE GUARANTEE IS BROKEN: {verdict:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_answered_503_and_loses_nothing_acknowledged() {
    let receiver = Receiver::start(|s| Answer::Status(if s.offset() % 50 == 0 { 500 } else { 200 })).await;
    let disk = SmallDisk::mount(192 << 20);
    let mut setup = Setup::groups([group("g", "t", &receiver.url(), &json!({"failed_sleep": "1s", "worker_num": 64}))]);
    setup.wrapper = disk.enter();
    setup.data_dir = Some(disk.dir());
    let mut gateway = setup.start().await;
    let producer = Producer::new(gateway.api, "t");
    let body: Bytes = (0..512 << 10).map(|n: u32| u8::try_from(n.wrapping_mul(2_654_435_761) >> 24).unwrap()).collect::<Vec<u8>>().into();
    let mut acked = Vec::new();
    let refused = loop {
        match producer.plain(Some(&format!("k{}", acked.len())), &[], body.clone()).await {
            Ok(message) => acked.push(message),
            Err(refused) => break refused,
        }
        assert!(acked.len() < 2_000, "1 GB does not fit on this disk");
    };
    assert_eq!(refused.status, Some(503), "{refused:?}");
    assert!(refused.body.contains("disk_full"), "{}", refused.body);
    assert!(refused.retry_after.is_some());
    assert!(acked.len() > 40, "only {} MB were taken", acked.len() / 2);
    receiver.script(|_| Answer::Status(200));
    gateway.until_caught_up("g", Duration::from_secs(20)).await;
    let verdict = judge(&acked, &receiver.seen());
    verdict.assert_nothing_lost_or_reordered();
    gateway.kill();
    gateway.restart().await;
    let first = gateway.admin_get("/v1/topics/t/messages?partition=0&offset=0&limit=1").await;
    assert!(first.to_string().contains("\"offset\":0"), "what was acknowledged is still there after a restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_on_the_same_folder_is_refused_by_name() {
    let receiver = Receiver::ok().await;
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({}))]).start().await;
    let second = Command::new(integration_tests::binary::mqgate())
        .args(["standalone", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir"])
        .arg(gateway.data_dir())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success());
    assert!(text.contains("in use") && text.contains(gateway.data_dir().to_str().unwrap()), "{text}");
    Producer::new(gateway.api, "t").plain(None, &[], Bytes::from_static(b"still here")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_last_write_is_left_out_and_everything_acknowledged_is_there() {
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    let mut gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({"worker_num": 64}))]).start().await;
    let producer = Arc::new(Producer::new(gateway.api, "t"));
    let mut acked = Vec::new();
    for tear in [1_usize, 7, 100] {
        for n in 0..50 {
            acked.push(producer.plain(Some(&format!("{tear}.{n}")), &[], Bytes::from(vec![b'x'; 300])).await.unwrap());
        }
        gateway.kill();
        let journal = newest_journal(&gateway.data_dir());
        let mut bytes = std::fs::read(&journal).unwrap();
        let written = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        let copy = bytes[written.saturating_sub(400)..written - tear.min(written)].to_vec();
        bytes.truncate(written);
        bytes.extend_from_slice(&copy);
        std::fs::write(&journal, &bytes).unwrap();
        gateway.restart().await;
    }
    receiver.script(|_| Answer::Status(200));
    gateway.until_caught_up("g", Duration::from_secs(15)).await;
    let verdict = judge(&acked, &receiver.seen());
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.delivered, acked.len(), "what was never acknowledged does not appear");
}

fn newest_journal(dir: &std::path::Path) -> std::path::PathBuf {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|e| e == "jnl") {
                found.push((entry.metadata().unwrap().modified().unwrap(), entry.path()));
            }
        }
    }
    found.into_iter().max().expect("the store keeps a journal").1
}

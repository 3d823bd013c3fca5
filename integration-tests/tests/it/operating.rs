//! What operators rely on: space that comes back, epochs, logs, a quiet process, a file that is judged.

use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use integration_tests::gateway::{Gateway, Setup, group};
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::request::Seen;
use integration_tests::wait;
use serde_json::{Value, json};

async fn fill(gateway: &Gateway, topic: &str, megabytes: usize) {
    let producer = Producer::new(gateway.api, topic);
    for start in 0..megabytes {
        // Nothing that a store could make smaller.
        let body =
            |n: usize| Bytes::from((0..100_000_u32).map(|b| (b.wrapping_mul(2_654_435_761) >> 13) as u8 ^ n as u8).collect::<Vec<u8>>());
        let lines: Vec<(String, Bytes)> = (0..10).map(|n| (format!("{start}.{n}"), body(start * 10 + n))).collect();
        producer.batch(&lines, &json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_topic_gives_its_space_back() {
    let gateway = Setup::default().embedded("retention_bytes", json!("1GiB")).start().await;
    fill(&gateway, "keep", 2).await;
    fill(&gateway, "drop", 150).await;
    let full = gateway.stored_bytes();
    assert!(full > 150_000_000, "{full} bytes for 150 MB");
    assert_eq!(gateway.delete_topic("drop").await, 204);
    wait::until("the space", Duration::from_secs(20), || async { (gateway.stored_bytes() < full - 100_000_000).then_some(()) }).await;
    assert_eq!(gateway.topic_bounds("drop").await, []);
    assert_eq!(gateway.written("keep").await, 20, "other topics keep theirs");
    assert_eq!(gateway.stored("keep").await.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_spares_what_a_group_has_not_passed_and_the_log_keeps_its_size_while_messages_pour_in() {
    let (mut stuck, delivered) = (Receiver::ok().await, Receiver::ok().await);
    stuck.close();
    let groups =
        [group("stuck", "needed", &stuck.url(), &json!({"failed_sleep": "200ms"})), group("done", "passed", &delivered.url(), &json!({}))];
    let setup = Setup::groups(groups).embedded("retention", json!("1s")).embedded("retention_bytes", json!("32MiB"));
    let gateway = setup.embedded("partitions", json!(1)).start().await;
    fill(&gateway, "needed", 1).await;
    fill(&gateway, "passed", 10).await;
    gateway.until_caught_up("done", Duration::from_secs(10)).await;
    // Cursors are stored once a second; by then everything is older than the retention.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    fill(&gateway, "passed", 10).await;
    wait::until("old records to go", Duration::from_secs(5), || async { (gateway.topic_bounds("passed").await[0].0 >= 40).then_some(()) })
        .await;
    assert_eq!(gateway.topic_bounds("needed").await, [(0, 10)], "what a group has not passed is spared");
    stuck.open().await;
    stuck.until_done(10, Duration::from_secs(5)).await;
    stuck.close();
    gateway.until_caught_up("stuck", Duration::from_secs(3)).await;
    fill(&gateway, "needed", 80).await;
    let kept = || gateway.metric("mqgate_log_bytes", &[]);
    wait::until("the log to be within its bound and a segment", Duration::from_secs(5), || async {
        (kept().await <= 36_000_000.0 + 4e6).then_some(())
    })
    .await;
    let (first, end) = gateway.topic_bounds("needed").await[0];
    assert!(first > 10 && end == 810, "the bound wins over what is needed: {first}..{end}");
    let said = |line: &Value| line["level"] == "WARN" && line["topic"] == "needed" && line.to_string().contains("had not delivered");
    assert!(gateway.log_lines().iter().any(said), "and that is said: {}", gateway.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_epoch_grows_with_every_start() {
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    let policy = json!({"failed_sleep": "100ms"});
    let mut gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).embedded("partitions", json!(1)).start().await;
    Producer::new(gateway.api, "t").plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
    let mut epochs = Vec::new();
    for start in 0..3 {
        receiver.clear();
        let seen = receiver.until_count(2, Duration::from_secs(5)).await;
        assert!(seen.iter().all(|s| s.epoch() == seen[0].epoch()), "one owner, one epoch");
        epochs.push(seen[0].epoch());
        match start {
            0 => drop(gateway.terminate(Duration::from_secs(5)).await),
            _ => gateway.kill(),
        }
        gateway.restart().await;
    }
    assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "{epochs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_in_the_log_with_its_place_in_json() {
    let receiver = Receiver::start(|s| Answer::Status(if s.text() == "BAD" { 500 } else { 200 })).await;
    for bypass in [true, false] {
        let policy = json!({"bypass_failed": bypass, "failed_sleep": "100ms"});
        let gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).start().await;
        let producer = Producer::new(gateway.api, "t");
        producer.plain(Some("k"), &[], Bytes::from_static(b"fine")).await.unwrap();
        let bad = producer.plain(Some("k"), &[], Bytes::from_static(b"BAD")).await.unwrap();
        let of_it = |line: &Value| {
            let text = |name: &str| line[name].as_str().map_or_else(|| line[name].to_string(), str::to_owned);
            let place = (text("group"), text("topic"), text("partition"), text("offset"));
            place == ("g".into(), "t".into(), bad.partition.to_string(), bad.offset.to_string()) && line.to_string().contains("500")
        };
        let what = format!("a line that names the failed record and its status, bypass {bypass}");
        let line = wait::until(&what, Duration::from_secs(4), || async { gateway.log_lines().into_iter().find(|l| of_it(l)) }).await;
        assert_eq!(line["level"], "WARN", "{line}");
        assert!(line["timestamp"].is_string() && line["message"].is_string(), "{line}");
        assert!(gateway.log_lines().len() < 40, "and the log is no flood");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_gateway_is_quiet() {
    let receiver = Receiver::ok().await;
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({})), group("h", "t", &receiver.url(), &json!({}))]).start().await;
    Producer::new(gateway.api, "t").plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
    receiver.until_done(2, Duration::from_secs(3)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = gateway.cpu();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let used = gateway.cpu() - before;
    // 0.5 s a minute is 83 ms; the kernel counts in ticks of 10 ms.
    assert!(used <= Duration::from_millis(110), "{used:?} of processor time in 10 s of doing nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_come_while_cursors_cannot_be_stored_are_stored_before_the_exit() {
    let dir = tempfile::tempdir().unwrap();
    let syncs = integration_tests::shim::Syncs::new(dir.path());
    let receiver = Receiver::start(|_| Answer::Status(200).after(Duration::from_millis(100))).await;
    let mut setup = Setup::groups([group("g", "t", &receiver.url(), &json!({"worker_num": 16, "commit_interval": "100ms"}))]);
    setup.environment = syncs.environment();
    let mut gateway = setup.start().await;
    let producer = Producer::new(gateway.api, "t");
    let lines: Vec<(String, Bytes)> = (0..2_000).map(|n| (format!("k{n}"), Bytes::from(format!("{n}")))).collect();
    let acked = producer.batch(&lines, &json!({})).await;
    receiver.until_done(200, Duration::from_secs(10)).await;
    syncs.delay(Duration::from_secs(2));
    let asked = std::time::Instant::now();
    assert_eq!(gateway.terminate(Duration::from_secs(15)).await.code(), Some(0), "{}", gateway.log());
    let late = |seen: &[Seen]| seen.iter().filter(|s| s.at > asked + Duration::from_millis(150)).count();
    assert_eq!(late(&receiver.seen()), 0, "no attempt starts after SIGTERM");
    syncs.obey_the_disk();
    gateway.restart().await;
    gateway.until_caught_up("g", Duration::from_secs(30)).await;
    let verdict = integration_tests::ledger::judge(&acked, &receiver.seen());
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.repeats, 0, "what was answered before the exit is not repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_values_in_effect_are_in_one_line_of_the_log_at_every_start_without_secrets() {
    let setup = Setup::groups([group("g", "t", "http://user:s3cret@127.0.0.1:1/", &json!({"failed_sleep": "7s"}))]);
    let gateway = setup.start().await;
    let lines = gateway.log_lines();
    let said = lines.iter().find(|l| l["message"].as_str().is_some_and(|m| m.starts_with("effective configuration")));
    assert_eq!(said.map(|line| &line["level"]), Some(&json!("INFO")));
    let said = said.unwrap_or_else(|| panic!("no effective configuration in {lines:?}"))["message"].as_str().unwrap();
    for value in ["\"failed_sleep\":\"7s\"", "\"timeout\":\"1s\"", "\"produce_timeout\":\"5s\""] {
        assert!(said.contains(value), "{value} in {said}");
    }
    assert!(!said.contains('\n') && !said.contains("s3cret"), "one line, without the receiver's password: {said}");
}

#[test]
fn a_file_with_comments_crlf_and_a_byte_order_mark_is_read_whole_and_a_duplicate_names_both_lines() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.json");
    let check = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        let output = Command::new(integration_tests::binary::mqgate()).arg("check").arg(&file).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    };
    let good = "{\"consumer_groups\": [ // note\r\n{\"url\":\"http://rx:9900//a?b=//c\",//x\r\n/* \"off\": 1 */ \"topics\":[\"t\"],}]}\r\n// the end";
    for bytes in [good.as_bytes().to_vec(), format!("\u{feff}{good}").into_bytes(), [good.as_bytes(), b" caf\xe9"].concat()] {
        let (code, said) = check(&bytes);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("http://rx:9900//a?b=//c"), "the URL is whole: {said}");
        assert!(said.contains("failed_sleep") && said.contains("5m"), "the values in effect are printed: {said}");
    }
    let twice = good.replace("\"topics\"", "\r\n\"url\":\"http://b\",\"topics\"");
    let (code, said) = check(twice.as_bytes());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("c.json:4:1") && said.contains("in line 2 and in line 4"), "{said}");
}

#[test]
fn a_duration_without_a_unit_or_without_sense_stops_the_start_and_its_place_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.json");
    let values = ["10", "\"10\"", "\"0\"", "\"0s\"", "\"-5s\"", "\"10 S\"", "\"1e3s\"", "\"99999999999s\"", "1.5"];
    for value in values {
        std::fs::write(
            &file,
            format!("{{\"consumer_groups\": [{{\"url\": \"http://rx/\", \"topics\": [\"t\"],\n  \"timeout\": {value}}}]}}"),
        )
        .unwrap();
        for words in [&["check"][..], &["standalone", "--data-dir", dir.path().join("data").to_str().unwrap(), "-c"]] {
            let output = Command::new(integration_tests::binary::mqgate()).args(words).arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(2), "{words:?} {value}: {said}");
            assert!(said.contains("c.json:2:14") && said.contains("consumer_groups[0].timeout"), "{words:?} {value}: {said}");
        }
    }
    assert!(!dir.path().join("data").exists(), "nothing was begun");
}

//! What a group's policy says, measured at the receiver: never earlier, at most 10 % + 300 ms later.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use integration_tests::backend::{Backend, Site};
use integration_tests::gateway::{Gateway, Setup, group};
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::request::Seen;
use integration_tests::wait::assert_on_time;
use serde_json::{Value, json};

const MS: Duration = Duration::from_millis(1);

on_each_backend! {
    a_record_is_bypassed_after_its_round_and_its_key_goes_on,
    without_bypass_a_key_waits_for_ever_and_others_go_on,
    the_processing_timeout_ends_a_round_without_further_attempts,
    a_delayed_record_is_pushed_when_it_is_due_and_holds_no_slot,
    retry_after_is_obeyed_and_rubbish_is_ignored,
}

async fn on(backend: Backend, receiver: &Receiver, policy: &Value) -> (Site, Producer) {
    let site = Site::start(backend, Setup::groups([group("g", "t", &receiver.url(), policy)])).await;
    let producer = site.producer("t");
    (site, producer)
}

async fn start(receiver: &Receiver, policy: &Value) -> (Gateway, Producer) {
    let gateway = Setup::groups([group("g", "t", &receiver.url(), policy)]).start().await;
    let producer = Producer::new(gateway.api, "t");
    (gateway, producer)
}

/// When each attempt of a body began.
fn attempts<'a>(seen: &'a [Seen], body: &str) -> Vec<&'a Seen> {
    seen.iter().filter(|s| s.text() == body).collect()
}

/// C42 with bypass.
async fn a_record_is_bypassed_after_its_round_and_its_key_goes_on(backend: Backend) {
    let receiver = Receiver::start(|s| Answer::Status(if s.text() == "BAD" { 500 } else { 200 })).await;
    let policy = json!({"retry_times": 3, "retry_backoff": {"initial": "200ms", "max": "200ms"}, "bypass_failed": true, "dead_letter_topic": "dead"});
    let (site, producer) = on(backend, &receiver, &policy).await;
    for body in ["1", "BAD", "3"] {
        producer.plain(Some("k"), &[("X-Kmq-Header-color", "red")], Bytes::from_static(body.as_bytes())).await.unwrap();
    }
    let seen = receiver.until("record 3", Duration::from_secs(5), |seen| seen.iter().any(|s| s.text() == "3")).await;
    let bad = attempts(&seen, "BAD");
    assert_eq!(bad.iter().map(|s| s.attempt()).collect::<Vec<_>>(), [0, 1, 2, 3], "retry_times further attempts");
    assert!(bad.windows(2).all(|p| p[0].id() == p[1].id()), "one id over all attempts");
    for pair in bad.windows(2) {
        let took = pair[1].at - pair[0].answered.unwrap();
        assert!(took >= 98 * MS && took <= 200 * MS + 320 * MS, "backoff between half and whole: {took:?}");
    }
    site.pusher.until_caught_up("g", Duration::from_secs(5)).await;
    let dead = site.topic("dead");
    let topics = site.pusher.admin_get("/v1/topics").await;
    assert!(topics.to_string().contains(&format!("\"{dead}\"")), "{topics}");
    let mut found = Vec::new();
    for partition in 0..4 {
        let page = site.pusher.admin_get(&format!("/v1/topics/{dead}/messages?partition={partition}&offset=0&limit=10")).await;
        found.extend(page["messages"].as_array().unwrap().clone());
    }
    assert_eq!(found.len(), 1, "one record was given up: {found:?}");
    let text = found[0].to_string();
    for expected in [
        "mqgate-dlq-group",
        "mqgate-dlq-topic",
        "mqgate-dlq-partition",
        "mqgate-dlq-offset",
        "mqgate-dlq-reason",
        "mqgate-dlq-status",
        "mqgate-dlq-attempts",
        "BAD",
        "color",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert_eq!(site.pusher.metric("mqgate_bypassed_total", &[("group", "g")]).await, 1.0);
}

/// C42 without bypass.
async fn without_bypass_a_key_waits_for_ever_and_others_go_on(backend: Backend) {
    let receiver = Receiver::start(|s| Answer::Status(if s.text() == "BAD" { 500 } else { 200 })).await;
    let policy =
        json!({"retry_times": 1, "retry_backoff": {"initial": "100ms", "max": "100ms"}, "bypass_failed": false, "failed_sleep": "700ms"});
    let (site, producer) = on(backend, &receiver, &policy).await;
    producer.plain(Some("k"), &[], Bytes::from_static(b"BAD")).await.unwrap();
    producer.plain(Some("k"), &[], Bytes::from_static(b"after")).await.unwrap();
    for n in 0..50 {
        producer.plain(Some(&format!("other{n}")), &[], Bytes::from_static(b"fine")).await.unwrap();
    }
    let seen = receiver
        .until("three rounds", Duration::from_secs(8), |seen| attempts(seen, "BAD").len() >= 6 && attempts(seen, "fine").len() == 50)
        .await;
    let bad = attempts(&seen, "BAD");
    assert_eq!(bad.iter().take(6).map(|s| s.attempt()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5], "counted over all rounds");
    for round in [1, 3] {
        assert_on_time("failed_sleep", bad[round + 1].at - bad[round].answered.unwrap(), 700 * MS);
    }
    assert!(attempts(&seen, "after").is_empty());
    let group = site.pusher.group("g").await;
    assert!(group.to_string().contains("500"), "the last error is shown: {group}");
    let line = site.pusher.log().lines().find(|l| l.contains("attempt failed")).expect("a failure is logged").to_owned();
    for word in ["\"group\":\"g\"", &format!("\"topic\":\"{}\"", site.topic("t")), "\"partition\":", "\"offset\":", "500"] {
        assert!(line.contains(word), "{word} in {line}");
    }
    receiver.script(|_| Answer::Status(200));
    receiver.until("the key", Duration::from_secs(4), |seen| attempts(seen, "after").len() == 1).await;
    site.pusher.until_caught_up("g", Duration::from_secs(4)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_ends_at_its_timeout_and_a_late_answer_counts_for_nothing() {
    for behaviour in ["late", "silent", "half"] {
        let receiver = Receiver::start(move |s| match (s.attempt(), behaviour) {
            (0, "late") => Answer::Status(200).after(1_500 * MS),
            (0, "half") => Answer::Raw(b"HTTP/1.1 200".to_vec()),
            (0, _) => Answer::Hang,
            _ => Answer::Status(200),
        })
        .await;
        let policy = json!({"timeout": "1s", "retry_times": 1, "retry_backoff": {"initial": "10ms", "max": "10ms"}});
        let (_gateway, producer) = start(&receiver, &policy).await;
        producer.plain(Some("k"), &[], Bytes::from_static(b"a")).await.unwrap();
        producer.plain(Some("k"), &[], Bytes::from_static(b"b")).await.unwrap();
        let seen = receiver.until("b", Duration::from_secs(5), |seen| !attempts(seen, "b").is_empty()).await;
        let a = attempts(&seen, "a");
        assert_eq!(a.len(), 2, "{behaviour}");
        assert_on_time(behaviour, a[1].at - a[0].at, 1_005 * MS);
        assert_ne!(a[0].connection, a[1].connection, "the socket of a timed-out attempt is closed");
        assert!(attempts(&seen, "b")[0].at >= a[1].answered.unwrap(), "the next of the key waits");
    }
}

async fn the_processing_timeout_ends_a_round_without_further_attempts(backend: Backend) {
    let receiver = Receiver::start(|s| Answer::Status(if s.text() == "BAD" { 500 } else { 200 })).await;
    let policy = json!({"retry_times": 100, "retry_backoff": {"initial": "200ms", "max": "200ms"}, "processing_timeout": "1s", "bypass_failed": true});
    let (site, producer) = on(backend, &receiver, &policy).await;
    producer.plain(Some("k"), &[], Bytes::from_static(b"BAD")).await.unwrap();
    producer.plain(Some("k"), &[], Bytes::from_static(b"after")).await.unwrap();
    let seen = receiver.until("after", Duration::from_secs(5), |seen| !attempts(seen, "after").is_empty()).await;
    let bad = attempts(&seen, "BAD");
    assert!((4..=11).contains(&bad.len()), "{} attempts in one second", bad.len());
    assert_on_time("processing_timeout", attempts(&seen, "after")[0].at - bad[0].at, 1_000 * MS);
    assert_eq!(site.pusher.metric("mqgate_bypassed_total", &[("reason", "processing_timeout")]).await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_heals_after_processing_timeouts_is_served() {
    let receiver = Receiver::start(|s| Answer::Status(if s.attempt() < 6 { 500 } else { 200 })).await;
    let policy = json!({"retry_times": 100, "retry_backoff": {"initial": "150ms", "max": "150ms"}, "processing_timeout": "300ms", "bypass_failed": false, "failed_sleep": "200ms"});
    let (gateway, producer) = start(&receiver, &policy).await;
    producer.plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
    receiver.until_done(1, Duration::from_secs(10)).await;
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
}

async fn a_delayed_record_is_pushed_when_it_is_due_and_holds_no_slot(backend: Backend) {
    let receiver = Receiver::ok().await;
    let (site, producer) = on(backend, &receiver, &json!({"delay": "1s", "worker_num": 1})).await;
    let now = || i64::try_from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let started = Instant::now();
    let mut posted = BTreeMap::new();
    for n in 0..20 {
        let key = format!("k{n}");
        let from = Instant::now();
        producer.plain(Some(&key), &[], Bytes::from_static(b"fresh")).await.unwrap();
        posted.insert(key, from);
    }
    let past = Instant::now();
    let url = |ts: i64| format!("{}?timestamp={ts}&key=old{ts}", site.proxy().topic_url(&site.topic("t")));
    producer.http.post(url(now() - 5_000)).body("past").send().await.unwrap();
    let future = Instant::now();
    producer.http.post(url(now() + 60_000)).body("future").send().await.unwrap();
    let seen = receiver.until_done(22, Duration::from_secs(6)).await;
    for s in attempts(&seen, "fresh") {
        assert_on_time("delay", s.at - posted[s.key().unwrap()], 1_000 * MS);
        assert!(s.at - started >= 1_000 * MS, "{s:?}");
    }
    assert!(attempts(&seen, "past")[0].at - past < 900 * MS, "a record already due is pushed at once");
    assert_on_time("a broken clock", attempts(&seen, "future")[0].at - future, 1_000 * MS);
}

async fn retry_after_is_obeyed_and_rubbish_is_ignored(backend: Backend) {
    let cases: [(&'static str, Option<Duration>); 8] = [
        ("Retry-After: 1\r\n", Some(1_000 * MS)),
        ("Retry-After: 0\r\n", None),
        ("Retry-After: -5\r\n", None),
        ("Retry-After: abc\r\n", None),
        ("Retry-After: 1.5\r\n", None),
        ("Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", None),
        ("Retry-After: 86400\r\n", Some(2_000 * MS)),
        ("", None),
    ];
    let receiver = Receiver::start(move |s| match s.attempt() {
        0 => Answer::Full(429, cases[s.text().parse::<usize>().unwrap()].0.into(), Bytes::new()),
        _ => Answer::Status(200),
    })
    .await;
    let policy = json!({"retry_times": 3, "retry_backoff": {"initial": "50ms", "max": "50ms"}, "retry_after_max": "2s"});
    let (_site, producer) = on(backend, &receiver, &policy).await;
    for n in 0..cases.len() {
        producer.plain(Some(&format!("k{n}")), &[], Bytes::from(n.to_string())).await.unwrap();
    }
    let seen = receiver.until_done(cases.len(), Duration::from_secs(6)).await;
    for (n, (line, asked)) in cases.iter().enumerate() {
        let tries = attempts(&seen, Box::leak(n.to_string().into_boxed_str()));
        let took = tries[1].at - tries[0].answered.unwrap();
        match asked {
            Some(asked) => assert_on_time(line, took, *asked),
            None => assert!(took < 400 * MS, "{line:?}: {took:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_2xx_is_success_and_a_redirect_never_is() {
    let receiver = Receiver::start(|s| match (s.target.as_str(), s.attempt()) {
        ("/callback", 0) => match s.text().parse::<u16>().unwrap() {
            code @ 300..=399 => Answer::Full(code, "Location: /login\r\n".into(), Bytes::new()),
            103 => Answer::Raw(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
            code => Answer::Status(code),
        },
        _ => Answer::Status(200),
    })
    .await;
    let policy = json!({"retry_times": 1, "retry_backoff": {"initial": "10ms", "max": "10ms"}});
    let (gateway, producer) = start(&receiver, &policy).await;
    let good = [200_u16, 201, 202, 204, 206, 299, 103];
    let bad = [300_u16, 301, 302, 303, 304, 307, 308, 400, 404, 500, 600];
    for code in good.iter().chain(&bad) {
        producer.plain(Some(&code.to_string()), &[], Bytes::from(code.to_string())).await.unwrap();
    }
    receiver.until("all", Duration::from_secs(6), |seen| seen.len() >= good.len() + 2 * bad.len()).await;
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
    let seen = receiver.seen();
    for code in good {
        assert_eq!(attempts(&seen, &code.to_string()).len(), 1, "{code} is success");
    }
    for code in bad {
        assert_eq!(attempts(&seen, &code.to_string()).len(), 2, "{code} is a failed attempt");
    }
    assert!(seen.iter().all(|s| s.target == "/callback"), "no redirect is followed");
}

//! What receivers may answer, and what comes of it.

use std::time::Duration;

use bytes::Bytes;
use integration_tests::gateway::{Gateway, Setup, group};
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Closing, Receiver};
use integration_tests::request::Seen;
use integration_tests::wait::{assert_on_time, assert_timed_out_on_time};
use serde_json::{Value, json};

const MS: Duration = Duration::from_millis(1);

async fn start(receiver: &Receiver, policy: &Value) -> (Gateway, Producer) {
    let gateway = Setup::groups([group("g", "t", &receiver.url(), policy)]).start().await;
    let producer = Producer::new(gateway.api, "t");
    (gateway, producer)
}

fn of<'a>(seen: &'a [Seen], body: &str) -> Vec<&'a Seen> {
    seen.iter().filter(|s| s.text() == body).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_the_receiver_closes_just_then_costs_no_attempt() {
    for closing in [Closing::Fin, Closing::Reset] {
        let receiver = Receiver::ok().await;
        receiver.close_idle(100 * MS, closing);
        // A retry by backoff would show as a gap of seconds, and a budget of none as a bypass.
        let mut policy = json!({"retry_times": 0, "bypass_failed": true, "retry_backoff": {"initial": "5s", "max": "5s"}});
        policy["idle_timeout"] = json!("4s");
        policy["timeout"] = json!("10s");
        policy["connect_timeout"] = json!("3s");
        let (gateway, producer) = start(&receiver, &policy).await;
        for n in 0..60 {
            // From a little before the receiver closes to a little after: which of both comes first differs.
            tokio::time::sleep((95 + n % 11) * MS).await;
            producer.plain(Some("k"), &[], Bytes::from(format!("{n}"))).await.unwrap();
        }
        receiver.until_done(60, Duration::from_secs(3)).await;
        gateway.until_caught_up("g", Duration::from_secs(3)).await;
        assert_eq!(gateway.metric("mqgate_bypassed_total", &[]).await, 0.0, "{closing:?}");
        assert_eq!(gateway.metric("mqgate_attempts_total", &[("outcome", "done")]).await, 60.0, "{closing:?}");
        assert_eq!(gateway.metric("mqgate_attempts_total", &[("group", "g")]).await, 60.0, "{closing:?}: none failed");
        let seen = receiver.seen();
        assert!(seen.iter().all(|s| s.attempt() == 0), "{closing:?}: no attempt is counted");
        assert_eq!(seen.len(), 60, "{closing:?}: what was answered is not sent again");
        assert!(receiver.connections() > 1, "{closing:?}: connections really were closed");
        let free = gateway.metric("mqgate_free_retries_total", &[]).await;
        assert!(free <= 60.0, "{closing:?}: at most one a record, not {free}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_that_is_closed_instead_of_an_answer_is_an_attempt() {
    for (answer, label) in [(Answer::Close, "closed_before_answer"), (Answer::Reset, "reset")] {
        let receiver = Receiver::start(move |s| if s.attempt() < 2 { answer.clone() } else { Answer::Status(200) }).await;
        let policy = json!({"retry_times": 5, "retry_backoff": {"initial": "200ms", "max": "200ms"}});
        let (gateway, producer) = start(&receiver, &policy).await;
        producer.plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
        let seen = receiver.until_done(1, Duration::from_secs(4)).await;
        assert_eq!(seen.iter().map(Seen::attempt).collect::<Vec<_>>(), [0, 1, 2], "{label}: each is counted, none repeated for free");
        for pair in seen.windows(2) {
            assert!(pair[1].at - pair[0].at >= 98 * MS, "{label}: with its pause");
        }
        gateway.until_caught_up("g", Duration::from_secs(3)).await;
        assert_eq!(gateway.metric("mqgate_attempts_total", &[("outcome", label)]).await, 2.0, "{label}");
        assert_eq!(gateway.metric("mqgate_free_retries_total", &[]).await, 0.0, "{label}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_connection_that_is_closed_after_each_head_is_repeated_once_for_free() {
    let receiver = Receiver::ok().await;
    let policy = json!({"retry_times": 5, "retry_backoff": {"initial": "200ms", "max": "200ms"}});
    let (gateway, producer) = start(&receiver, &policy).await;
    producer.plain(Some("k"), &[], Bytes::from_static(b"warm")).await.unwrap();
    receiver.until_done(1, Duration::from_secs(3)).await;
    receiver.script(|s| if s.attempt() == 0 { Answer::Close } else { Answer::Status(200) });
    producer.plain(Some("k"), &[], Bytes::from_static(b"x")).await.unwrap();
    let seen = receiver.until_done(2, Duration::from_secs(4)).await;
    let tries = of(&seen, "x");
    assert_eq!(tries.iter().map(|s| s.attempt()).collect::<Vec<_>>(), [0, 0, 1], "one repeat for free, then an attempt that counts");
    assert!(tries[1].at - tries[0].at < 90 * MS && tries[1].connection != tries[0].connection, "at once, on a new connection");
    assert!(tries.iter().all(|s| s.id() == tries[0].id()));
    assert_eq!(gateway.metric("mqgate_free_retries_total", &[]).await, 1.0);
    assert_eq!(gateway.metric("mqgate_attempts_total", &[("outcome", "closed_before_answer")]).await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_timed_out_attempts_are_repeated_under_their_ids_and_late_answers_count_for_nothing() {
    let receiver =
        Receiver::start(|s| if s.attempt() == 0 { Answer::Status(200).after(750 * MS) } else { Answer::Status(200).after(100 * MS) }).await;
    let policy = json!({"timeout": "500ms", "retry_times": 3, "retry_backoff": {"initial": "50ms", "max": "50ms"}, "worker_num": 20});
    let (gateway, producer) = start(&receiver, &policy).await;
    for n in 0..20 {
        producer.plain(Some(&format!("k{n}")), &[], Bytes::from(format!("{n}"))).await.unwrap();
    }
    let seen = receiver.until_done(20, Duration::from_secs(6)).await;
    gateway.until_caught_up("g", Duration::from_secs(4)).await;
    for n in 0..20 {
        let tries = of(&seen, &n.to_string());
        assert_eq!(tries.iter().map(|s| s.attempt()).collect::<Vec<_>>(), [0, 1], "{n}");
        assert_eq!(tries[0].id(), tries[1].id(), "{n}");
        assert_timed_out_on_time("timeout and pause", tries[1].at - tries[0].at, 525 * MS);
        assert!(tries[0].status.is_none(), "{n}: the socket was closed before the late answer");
    }
    assert_eq!(gateway.metric("mqgate_attempts_total", &[("outcome", "timeout")]).await, 20.0);
    assert_eq!(gateway.metric("mqgate_attempts_total", &[("outcome", "done")]).await, 20.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_takes_the_connection_and_never_reads_is_given_up_in_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let policy = json!({"timeout": "500ms", "retry_times": 1, "retry_backoff": {"initial": "50ms", "max": "50ms"}, "bypass_failed": true});
    let gateway = Setup::groups([group("g", "t", &url, &policy)]).start().await;
    // More than the sockets' buffers hold, so that writing it stalls.
    let started = std::time::Instant::now();
    Producer::new(gateway.api, "t").plain(Some("k"), &[], Bytes::from(vec![b'x'; 990_000])).await.unwrap();
    gateway.until_caught_up("g", Duration::from_secs(5)).await;
    let took = started.elapsed();
    assert!(took >= 1_020 * MS && took <= 2_200 * MS, "two attempts of 500 ms and a pause: {took:?}");
    assert_eq!(gateway.metric("mqgate_attempts_total", &[("outcome", "timeout")]).await, 2.0);
    drop(listener);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cursor_does_not_pass_what_is_no_success() {
    let answers: [(&str, Answer); 7] = [
        ("101", Answer::Raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_vec())),
        ("301", Answer::Full(301, "Location: /login\r\n".into(), Bytes::new())),
        ("302", Answer::Full(302, "Location: /callback\r\n".into(), Bytes::new())),
        ("307", Answer::Full(307, "Location: /login\r\n".into(), Bytes::new())),
        ("304", Answer::Status(304)),
        ("404", Answer::Status(404)),
        ("600", Answer::Status(600)),
    ];
    let receiver = Receiver::start(move |s| match s.text() {
        "100" => Answer::Raw(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        body => answers.iter().find(|(name, _)| *name == body).unwrap().1.clone(),
    })
    .await;
    let policy = json!({"failed_sleep": "100ms", "worker_num": 8});
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).embedded("partitions", json!(1)).start().await;
    let producer = Producer::new(gateway.api, "t");
    let codes = ["100", "101", "301", "302", "304", "307", "404", "600"];
    for code in codes {
        producer.plain(Some(code), &[], Bytes::from_static(code.as_bytes())).await.unwrap();
    }
    let seen = receiver.until("three tries each", Duration::from_secs(8), |seen| codes[1..].iter().all(|c| of(seen, c).len() >= 3)).await;
    assert_eq!(of(&seen, "100").len(), 1, "an interim answer is skipped");
    assert!(seen.iter().all(|s| s.target == "/callback" && s.method == "POST"), "nothing is followed");
    tokio::time::sleep(100 * MS).await;
    assert_eq!(gateway.group("g").await["partitions"][0]["cursor"], 1);
    assert_eq!(gateway.metric("mqgate_delivered_total", &[]).await, 1.0);
    for label in ["status_3xx", "status_4xx", "status_1xx", "status_other"] {
        assert!(gateway.metric("mqgate_attempts_total", &[("outcome", label)]).await >= 3.0, "{label}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_page_of_a_megabyte_is_cleaned_and_cut_and_the_next_record_flows() {
    let mut page = b"<!DOCTYPE html>\r\n<html>\n<head>\n<title>Not here</title>\n</head>\n<body>\n\0\xff\x1b[31m\n".to_vec();
    page.extend(std::iter::repeat_n(&b"<p>no such page</p>\n"[..], 52_000).flatten());
    let receiver = Receiver::start(move |s| match s.text() {
        "BAD" => Answer::Full(404, "Content-Type: text/html\r\n".into(), Bytes::from(page.clone())),
        _ => Answer::Status(200),
    })
    .await;
    let policy = json!({"retry_times": 0, "bypass_failed": true, "dead_letter_topic": "dead", "timeout": "3s"});
    let (gateway, producer) = start(&receiver, &policy).await;
    let headers = [("X-Kmq-Header-color", "red"), ("Content-Type", "text/x-bad"), ("Idempotency-Key", "id-1")];
    let bad = producer.plain(Some("k"), &headers, Bytes::from_static(b"BAD")).await.unwrap();
    producer.plain(Some("k"), &[], Bytes::from_static(b"next")).await.unwrap();
    receiver.until("the next", Duration::from_secs(5), |seen| !of(seen, "next").is_empty()).await;
    gateway.until_caught_up("g", Duration::from_secs(3)).await;
    assert_eq!(of(&receiver.seen(), "BAD").len(), 1, "no retry");
    let dead = gateway.stored("dead").await;
    let [letter] = &dead[..] else { panic!("one dead letter: {dead:?}") };
    assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some("k"), Some(&b"BAD"[..])));
    let (partition, offset) = (bad.partition.to_string(), bad.offset.to_string());
    let expected = [
        ("color", "red"),
        ("content-type", "text/x-bad"),
        ("mqgate-id", "id-1"),
        ("mqgate-dlq-group", "g"),
        ("mqgate-dlq-topic", "t"),
        ("mqgate-dlq-partition", partition.as_str()),
        ("mqgate-dlq-offset", offset.as_str()),
        ("mqgate-dlq-status", "404"),
        ("mqgate-dlq-attempts", "1"),
    ];
    for (name, value) in expected {
        assert_eq!(letter.header(name), Some(value), "{name} in {letter:?}");
    }
    let reason = letter.header("mqgate-dlq-reason").expect("a reason");
    assert!(reason.len() <= 1_024 && reason.chars().all(|c| !c.is_control()), "cut and cleaned: {reason:?}");
    assert!(gateway.log_lines().len() > 3, "each line of the log is still one JSON object");
    assert_eq!(gateway.metric("mqgate_bypassed_total", &[("group", "g")]).await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_obeyed_as_a_date_with_503_and_twice_and_holds_back_nobody_else() {
    let asked = |name: &str| match name {
        "date" => {
            let at = std::time::SystemTime::now() + Duration::from_secs(3);
            (429, format!("Retry-After: {}\r\n", httpdate::fmt_http_date(at)))
        }
        "503" => (503, "Retry-After: 2\r\n".to_owned()),
        "two" => (429, "Retry-After: 1\r\nRetry-After: 2\r\n".to_owned()),
        "500" => (500, "Retry-After: 4\r\n".to_owned()),
        _ => (429, "Retry-After: 1\r\n".to_owned()),
    };
    let receiver = Receiver::start(move |s| match (s.target.as_str(), s.attempt(), s.text()) {
        ("/other", ..) => Answer::Status(200),
        (_, 0, name) | (_, _, name @ "always") => Answer::Full(asked(name).0, asked(name).1, Bytes::new()),
        _ => Answer::Status(200),
    })
    .await;
    let policy = json!({"retry_times": 2, "retry_backoff": {"initial": "50ms", "max": "50ms"}, "bypass_failed": true});
    let other = format!("http://{}/other", receiver.addr);
    let groups = [group("g", "t", &receiver.url(), &policy), group("other", "t", &other, &json!({}))];
    let gateway = Setup::groups(groups).start().await;
    let producer = Producer::new(gateway.api, "t");
    for name in ["date", "503", "two", "500", "always"] {
        producer.plain(Some(name), &[], Bytes::from_static(name.as_bytes())).await.unwrap();
    }
    receiver.until("the other group", 900 * MS, |seen| seen.iter().filter(|s| s.target == "/other").count() == 5).await;
    gateway.until_caught_up("g", Duration::from_secs(8)).await;
    let seen: Vec<Seen> = receiver.seen().into_iter().filter(|s| s.target != "/other").collect();
    let pause = |name: &str| of(&seen, name)[1].at - of(&seen, name)[0].answered.unwrap();
    // A date has whole seconds: the one asked for lies up to a second before three from now.
    assert!(pause("date") >= 1_950 * MS && pause("date") <= 3_600 * MS, "{:?}", pause("date"));
    assert_on_time("503", pause("503"), 2_000 * MS);
    assert_on_time("the longer of two", pause("two"), 2_000 * MS);
    assert!(pause("500") < 500 * MS, "with any other status it says nothing: {:?}", pause("500"));
    assert_eq!(of(&seen, "always").len(), 3, "each counts as an attempt of the round");
    assert_eq!(gateway.metric("mqgate_bypassed_total", &[("reason", "status_429")]).await, 1.0);
}

//! What each answer means.

use std::time::Duration;

use common::config::SuccessStatus;
use engine::event::Outcome;
use tokio::time::Instant;

use super::bench::{Bench, event, group};
use super::receiver::{Receiver, Step, ok, send};

fn status(status: &str, more: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\n{more}Content-Length: 0\r\n\r\n").into_bytes()
}

/// What comes of one answer, with the requests that the receiver saw.
async fn outcome_of(answer: Vec<u8>) -> (Outcome, usize) {
    let receiver = Receiver::start(move |_| vec![Step::Send(answer.clone())]).await;
    let outcome = Bench::to(&receiver.url()).process(&event("v")).await;
    (outcome, receiver.requests().len())
}

fn failed(outcome: &Outcome) -> (&'static str, Option<u16>) {
    match outcome {
        Outcome::Retry { not_before: None, failure } => (failure.reason, failure.code),
        other => panic!("a failed attempt, not {other:?}"),
    }
}

#[tokio::test]
async fn every_2xx_is_done() {
    for code in ["200", "201", "202", "206", "299"] {
        assert_eq!(outcome_of(status(code, "")).await, (Outcome::Done, 1), "{code}");
    }
    assert_eq!(outcome_of(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()).await, (Outcome::Done, 1));
}

#[tokio::test]
async fn interim_answers_are_skipped() {
    let early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(outcome_of(early.to_vec()).await, (Outcome::Done, 1));
    assert_eq!(outcome_of(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n".to_vec()).await, (Outcome::Done, 1));
}

#[tokio::test]
async fn a_redirect_is_a_failed_attempt_and_never_followed() {
    for code in [300, 301, 302, 303, 304, 307, 308] {
        let receiver = Receiver::start(move |request| match request.number {
            0 => vec![Step::Send(status(&code.to_string(), "Location: /login\r\n"))],
            _ => vec![ok()],
        })
        .await;
        let outcome = Bench::to(&receiver.url()).process(&event("v")).await;
        assert_eq!(failed(&outcome), ("status_3xx", Some(code)));
        assert_eq!(receiver.requests().len(), 1, "/login sees no request");
    }
}

#[tokio::test]
async fn switching_protocols_and_unheard_of_statuses_are_failures() {
    let upgrade = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    assert_eq!(failed(&outcome_of(upgrade.into()).await.0), ("status_1xx", Some(101)));
    assert_eq!(failed(&outcome_of(status("600", "")).await.0), ("status_other", Some(600)));
    assert_eq!(failed(&outcome_of(status("404", "")).await.0), ("status_4xx", Some(404)));
    assert_eq!(failed(&outcome_of(status("500", "")).await.0), ("status_5xx", Some(500)));
}

#[tokio::test]
async fn what_is_no_http_is_a_failure() {
    assert_eq!(failed(&outcome_of(b"220 smtp.example.org ESMTP\r\n".to_vec()).await.0), ("protocol", None));
}

#[tokio::test]
async fn an_exact_success_status_refuses_another() {
    let receiver = Receiver::start(|_| vec![Step::Send(status("204", ""))]).await;
    let mut group = group(&receiver.url());
    group.success_status = SuccessStatus::Exactly(200);
    let bench = Bench::new(&group);
    assert_eq!(failed(&bench.process(&event("v")).await), ("status_2xx", Some(204)));
    assert_eq!(bench.metric(r#"attempts_total{group="g",outcome="status_2xx"}"#), 1);
}

/// How long from now the next attempt is held back.
async fn held_back(status_code: &str, more: &str) -> Option<Duration> {
    match outcome_of(status(status_code, more)).await.0 {
        Outcome::Retry { not_before, .. } => not_before.map(|at| at.saturating_duration_since(Instant::now())),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn retry_after_is_obeyed_up_to_the_cap_and_rubbish_ignored() {
    let about = |wait: Option<Duration>, secs: f64| {
        let waits = wait.expect("it is obeyed").as_secs_f64();
        assert!((secs - 1.0..=secs).contains(&waits), "{waits} s instead of {secs} s");
    };
    about(held_back("429", "Retry-After: 3\r\n").await, 3.0);
    about(held_back("503", "Retry-After: 2\r\n").await, 2.0);
    about(held_back("429", "Retry-After: 86400\r\n").await, 3600.0);
    about(held_back("429", "Retry-After: 2\r\nRetry-After: 5\r\n").await, 5.0);
    let date = |at| format!("Retry-After: {}\r\n", httpdate::fmt_http_date(at));
    let now = std::time::SystemTime::now();
    about(held_back("429", &date(now + Duration::from_secs(4))).await, 4.0);
    assert_eq!(held_back("429", "Retry-After: 0\r\n").await, Some(Duration::ZERO));
    assert_eq!(held_back("429", &date(now - Duration::from_secs(60))).await, Some(Duration::ZERO));
    for rubbish in ["-5", "abc", "1.5", ""] {
        assert_eq!(held_back("429", &format!("Retry-After: {rubbish}\r\n")).await, None, "{rubbish:?}");
    }
    assert_eq!(held_back("500", "Retry-After: 3\r\n").await, None);
}

#[tokio::test]
async fn an_answer_with_a_body_leaves_the_connection_usable() {
    let receiver = Receiver::start(|_| vec![send(format!("HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n{}", "x".repeat(60_000)))]).await;
    let bench = Bench::to(&receiver.url());
    for _ in 0..3 {
        assert_eq!(bench.process(&event("v")).await, Outcome::Done);
    }
    assert!(receiver.requests().iter().all(|request| request.connection == 0));
}

#[tokio::test]
async fn an_answer_beyond_64_kib_counts_by_its_status_and_closes_the_connection() {
    for (code, done) in [("200", true), ("404", false)] {
        let page = format!("HTTP/1.1 {code} X\r\nContent-Length: 100000000\r\n\r\n{}", "x".repeat(1 << 20));
        let receiver = Receiver::start(move |_| vec![send(&page), Step::Stall]).await;
        let outcome = Bench::to(&receiver.url()).process(&event("v")).await;
        assert_eq!(outcome == Outcome::Done, done);
        receiver.closed(1).await;
    }
}

#[tokio::test]
async fn a_success_whose_body_breaks_off_is_a_failed_attempt() {
    let receiver = Receiver::start(|_| vec![send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), Step::Close]).await;
    let failure = Bench::to(&receiver.url()).failure(&event("v")).await;
    assert_eq!(failure.reason, "closed_mid_answer");
}

#[tokio::test]
async fn a_failure_is_known_by_its_status_even_if_its_body_breaks_off() {
    let answer = "HTTP/1.1 503 X\r\nRetry-After: 7\r\nContent-Length: 100\r\n\r\nbusy";
    let receiver = Receiver::start(move |_| vec![send(answer), Step::Close]).await;
    match Bench::to(&receiver.url()).process(&event("v")).await {
        Outcome::Retry { not_before: Some(_), failure } => assert_eq!(failure.detail, "503 Service Unavailable: busy"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn without_a_lease_no_attempt_is_made() {
    let receiver = Receiver::start(|_| vec![ok()]).await;
    let bench = Bench::to(&receiver.url());
    bench.lease.end();
    assert_eq!(bench.process(&event("v")).await, Outcome::Cut);
    bench.lease.grant();
    assert_eq!(bench.process(&event("v")).await, Outcome::Done);
    assert_eq!(receiver.requests().len(), 1);
}

//! Connections that die, and receivers that take too long.

use std::time::{Duration, Instant};

use engine::event::Outcome;

use super::bench::{Bench, event, group};
use super::receiver::{Reading, Receiver, Request, Step, ok, send};

const FREE_RETRIES: &str = r#"free_retries_total{group="g"}"#;

/// Answers the first request of the first connection, and ends it with the second, unanswered.
fn stale(end: Step) -> impl Fn(&Request) -> Vec<Step> {
    move |request| match (request.connection, request.on_connection) {
        (0, 1) => vec![end.clone()],
        _ => vec![ok()],
    }
}

#[tokio::test]
async fn a_stale_connection_costs_no_attempt() {
    for end in [Step::Close, Step::Reset] {
        let receiver = Receiver::start(stale(end)).await;
        let bench = Bench::to(&receiver.url());
        assert_eq!(bench.process(&event("1")).await, Outcome::Done);
        assert_eq!(bench.process(&event("2")).await, Outcome::Done);
        assert_eq!(bench.metric(FREE_RETRIES), 1);
        assert_eq!(bench.metric(r#"attempts_total{group="g",outcome="done"}"#), 2);
        let repeated = receiver.requests();
        assert_eq!(repeated.len(), 3);
        assert_eq!(repeated[1].header("X-Retry-Times"), repeated[2].header("X-Retry-Times"));
        assert_eq!(repeated[2].connection, 1);
    }
}

#[tokio::test]
async fn connections_closed_just_as_they_are_used_again_fail_no_attempt() {
    let idle = Duration::from_millis(20);
    for end in [Step::Close, Step::Reset] {
        let receiver = Receiver::start(move |_| vec![ok(), Step::Wait(idle), end.clone()]).await;
        let bench = Bench::to(&receiver.url());
        for number in 0..60 {
            assert_eq!(bench.process(&event(&number.to_string())).await, Outcome::Done);
            tokio::time::sleep(idle - Duration::from_millis(2) + Duration::from_micros(100) * (number % 40)).await;
        }
    }
}

#[tokio::test]
async fn the_free_retry_is_made_once() {
    let receiver = Receiver::start(|request| if request.number == 0 { vec![ok()] } else { vec![Step::Close] }).await;
    let bench = Bench::to(&receiver.url());
    bench.process(&event("1")).await;
    let failure = bench.failure(&event("2")).await;
    assert_eq!(failure.reason, "closed_before_answer");
    assert_eq!(receiver.requests().len(), 3);
    assert_eq!(bench.metric(FREE_RETRIES), 1);
}

#[tokio::test]
async fn a_new_connection_closed_without_an_answer_is_a_failed_attempt() {
    let receiver = Receiver::start(|_| vec![Step::Close]).await;
    let bench = Bench::to(&receiver.url());
    assert_eq!(bench.failure(&event("v")).await.reason, "closed_before_answer");
    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(bench.metric(FREE_RETRIES), 0);
    assert_eq!(bench.metric(r#"attempts_total{group="g",outcome="closed_before_answer"}"#), 1);
}

#[tokio::test]
async fn a_receiver_that_closes_after_the_head_is_a_failed_attempt() {
    let receiver = Receiver::with(Reading::HeadsOnly, None, |_| vec![Step::Close]).await;
    let failure = Bench::to(&receiver.url()).failure(&event(&"x".repeat(1 << 20))).await;
    assert!(matches!(failure.reason, "reset" | "closed_before_answer"), "{failure:?}");
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn a_reused_connection_that_ends_within_an_answer_is_a_failed_attempt() {
    let receiver = Receiver::start(|request| match request.number {
        0 => vec![ok()],
        _ => vec![send("HTTP/1.1 2"), Step::Close],
    })
    .await;
    let bench = Bench::to(&receiver.url());
    bench.process(&event("1")).await;
    assert_eq!(bench.failure(&event("2")).await.reason, "closed_mid_answer");
    assert_eq!(bench.metric(FREE_RETRIES), 0);
}

#[tokio::test]
async fn the_free_retry_needs_the_lease_too() {
    let receiver = Receiver::start(|request| match request.number {
        0 => vec![ok()],
        _ => vec![Step::Wait(Duration::from_millis(200)), Step::Close],
    })
    .await;
    let bench = Bench::to(&receiver.url());
    bench.process(&event("1")).await;
    let second = event("2");
    let losing_the_lease = async {
        while receiver.requests().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bench.lease.end();
    };
    let (outcome, ()) = tokio::join!(bench.process(&second), losing_the_lease);
    assert_eq!(outcome, Outcome::Cut);
    assert_eq!(receiver.requests().len(), 2);
}

/// The three ways of C49: an answer that comes too late, none at all, and half a head.
#[tokio::test]
async fn a_hanging_receiver_is_cut_off_at_the_timeout() {
    let timeout = Duration::from_millis(300);
    let hangs = [
        vec![Step::Wait(Duration::from_millis(450)), ok(), Step::Stall],
        vec![Step::Stall],
        vec![send("HTTP/1.1 200"), Step::Stall],
        vec![send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), Step::Stall],
    ];
    for hang in hangs {
        let receiver = Receiver::start(move |request| if request.number == 0 { hang.clone() } else { vec![ok()] }).await;
        let mut group = group(&receiver.url());
        group.timeout = timeout;
        let bench = Bench::new(&group);
        let began = Instant::now();
        assert_eq!(bench.failure(&event("v")).await.reason, "timeout");
        let took = began.elapsed();
        assert!((timeout..timeout.mul_f64(1.1) + Duration::from_millis(300)).contains(&took), "{took:?}");
        receiver.closed(1).await;
        assert_eq!(bench.attempt(&event("v"), 1).await, Outcome::Done);
        let requests = receiver.requests();
        assert_eq!(requests[1].connection, 1, "a late answer is credited to nobody");
        assert_eq!(requests[0].header("Webhook-Id"), requests[1].header("Webhook-Id"));
        assert_eq!((requests[0].header("X-Retry-Times"), requests[1].header("X-Retry-Times")), (Some("0"), Some("1")));
    }
}

#[tokio::test]
async fn an_attempt_dropped_by_the_engine_closes_its_connection_and_counts_as_cut() {
    let receiver = Receiver::start(|_| vec![Step::Stall]).await;
    let bench = Bench::to(&receiver.url());
    let cut = tokio::time::timeout(Duration::from_millis(100), bench.process(&event("v"))).await;
    assert!(cut.is_err());
    receiver.closed(1).await;
    assert_eq!(bench.metric(r#"attempts_total{group="g",outcome="cut"}"#), 1);
}

#[tokio::test]
async fn an_idle_connection_is_not_used_beyond_idle_timeout() {
    let receiver = Receiver::start(|_| vec![ok()]).await;
    let mut group = group(&receiver.url());
    group.idle_timeout = Duration::from_millis(100);
    let bench = Bench::new(&group);
    bench.process(&event("1")).await;
    receiver.closed(1).await;
    bench.process(&event("2")).await;
    assert_eq!(receiver.requests()[1].connection, 1);
}

#[tokio::test]
async fn a_busy_connection_is_given_up_at_connection_max_age() {
    let receiver = Receiver::start(|_| vec![ok()]).await;
    let mut group = group(&receiver.url());
    group.connection_max_age = Duration::from_millis(200);
    let bench = Bench::new(&group);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        let outcome = bench.process(&event("v")).await;
        assert_eq!(outcome, Outcome::Done);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let requests = receiver.requests();
    assert!(requests.last().unwrap().connection >= 2);
    assert!(requests.iter().filter(|request| request.connection == 0).count() > 1, "until then it is used");
    assert_eq!(bench.metric(FREE_RETRIES), 0);
}

//! Waiting for something to become true, with a bound and a reason.

use std::future::Future;
use std::time::{Duration, Instant};

/// Asks every 10 ms; panics with `what` after `within`.
pub async fn until<F, T>(what: &str, within: Duration, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < within, "{what}: not within {within:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asks every 10 ms what is wrong until nothing is; panics with the last answer after `within`.
pub async fn until_right<F, T>(within: Duration, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let start = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(wrong) => assert!(start.elapsed() < within, "not within {within:?}: {wrong}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// "Never earlier than asked, at most 10 % + 300 ms later."
#[track_caller]
pub fn assert_on_time(what: &str, took: Duration, asked: Duration) {
    let latest = asked.mul_f64(1.1) + Duration::from_millis(300);
    assert!(took + Duration::from_millis(2) >= asked, "{what}: after {took:?}, earlier than {asked:?}");
    assert!(took <= latest, "{what}: after {took:?}, later than {latest:?}");
}

/// The same of an attempt's timeout as its receiver sees it: the attempt began a little before the
/// receiver, on a busy machine, had read it.
#[track_caller]
pub fn assert_timed_out_on_time(what: &str, took: Duration, asked: Duration) {
    let earliest = asked.mul_f64(0.9).max(asked.saturating_sub(Duration::from_millis(150)));
    let latest = asked.mul_f64(1.1) + Duration::from_millis(300);
    assert!(took >= earliest && took <= latest, "{what}: after {took:?}, not {asked:?}");
}

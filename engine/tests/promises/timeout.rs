//! The processing timeout: how long a round may take.

use std::time::Duration;

use engine::event::{Failure, Outcome};
use engine::options::{Backoff, OnFailure, Options};
use engine::task::Permission;
use tokio::time::Instant;

use crate::rig::{Log, Rig, Store, after, failure, hanging, keyed, record, retry, sleep_ms};

fn options(on_failure: OnFailure) -> Options {
    let backoff = Backoff { initial: Duration::from_millis(400), max: Duration::from_millis(400) };
    Options { retry_times: 1000, processing_timeout: Some(Duration::from_secs(2)), backoff, on_failure, ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_in_flight_is_stopped_and_the_event_fails_without_retry() {
    let rig = Rig::new(options(OnFailure::Bypass), hanging(|offset| offset == 0));
    let (log, store) = (Log::of([keyed(0, "k"), keyed(1, "k")]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(1990).await;
    assert!(rig.ledger.given_up().is_empty());
    sleep_ms(1500).await;
    let given_up = rig.ledger.given_up.lock().unwrap().clone();
    assert_eq!(given_up[0].1.failure.reason, Failure::PROCESSING_TIMEOUT);
    assert!((2000..=2005).contains(&rig.ms(given_up[0].2)));
    assert_eq!(rig.ledger.of(0).len(), 1);
    assert_eq!(store.cursor(), 2);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_round_ends_while_it_waits_for_its_next_attempt() {
    let far = |_: u64, _| Outcome::Retry { not_before: Some(Instant::now() + Duration::from_secs(3600)), failure: failure("busy") };
    let rig = Rig::new(options(OnFailure::Bypass), after(Duration::ZERO, far));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(4000).await;
    let given_up = rig.ledger.given_up.lock().unwrap().clone();
    assert!((2000..=2005).contains(&rig.ms(given_up[0].2)));
    assert!(given_up[0].1.failure.detail.contains("told to fail"), "{given_up:?}");
    assert_eq!(given_up[0].1.failure.code, Some(500));
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn the_clock_starts_with_the_first_attempt_not_with_the_arrival() {
    let options = Options { worker_num: 1, ..options(OnFailure::Bypass) };
    let rig = Rig::new(options, after(Duration::from_millis(1500), |_, _| Outcome::Done));
    let (log, store) = (Log::of((0..10).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(20_000).await;
    assert!(rig.ledger.given_up().is_empty());
    assert_eq!(store.cursor(), 10);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn the_clock_stands_still_while_paused_or_cut() {
    for permission in [Permission::Pause, Permission::Cut] {
        let rig = Rig::new(options(OnFailure::Bypass), after(Duration::ZERO, |_, _| retry()));
        let (log, store) = (Log::of([record(0)]), Store::default());
        let handle = rig.partition(1, &log, &store);
        sleep_ms(1000).await;
        handle.set_permission(permission);
        sleep_ms(50_000).await;
        assert!(rig.ledger.given_up().is_empty(), "{permission:?}");
        let before = rig.ledger.calls().len();
        handle.set_permission(Permission::Run);
        sleep_ms(900).await;
        assert!(rig.ledger.given_up().is_empty(), "{permission:?}");
        assert!(rig.ledger.calls().len() > before);
        sleep_ms(200).await;
        assert_eq!(rig.ledger.given_up(), [0]);
        drop(handle);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_open_at_a_pause_is_not_stopped_by_the_standing_clock() {
    let rig = Rig::new(options(OnFailure::Bypass), after(Duration::from_millis(1900), |_, _| Outcome::Done));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    handle.set_permission(Permission::Pause);
    sleep_ms(5000).await;
    assert_eq!(store.cursor(), 1);
    assert!(rig.ledger.given_up().is_empty());
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_round_whose_only_attempt_was_cut_has_its_whole_time_again() {
    let rig = Rig::new(options(OnFailure::Bypass), after(Duration::from_millis(1500), |_, _| Outcome::Done));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(1400).await;
    handle.set_permission(Permission::Cut);
    sleep_ms(100).await;
    handle.set_permission(Permission::Run);
    sleep_ms(3000).await;
    assert!(rig.ledger.given_up().is_empty());
    assert_eq!(store.cursor(), 1);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn every_round_has_a_fresh_clock_and_at_least_one_attempt() {
    let sleep = Duration::from_secs(1);
    let rig = Rig::new(options(OnFailure::AnotherRound { sleep }), hanging(|_| true));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(30_500).await;
    let calls = rig.ledger.of(0);
    assert!((10..=11).contains(&calls.len()), "a round takes two seconds and a pause of one: {}", calls.len());
    calls.iter().enumerate().for_each(|(at, call)| assert_eq!((call.attempt.round, call.attempt.number), (at as u32, at as u32)));
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_heals_gets_the_event_in_the_next_round() {
    let sleep = Duration::from_secs(1);
    let script = Box::new(|_, attempt: engine::event::Attempt| {
        let hangs = attempt.round < 2;
        Box::pin(async move { if hangs { std::future::pending().await } else { Outcome::Done } }) as std::pin::Pin<Box<_>>
    });
    let rig = Rig::new(options(OnFailure::AnotherRound { sleep }), script);
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(8000).await;
    assert_eq!(store.cursor(), 1);
    drop(handle);
}

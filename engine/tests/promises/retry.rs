//! Attempts, rounds, and giving up.

use std::time::Duration;

use engine::event::Outcome;
use engine::ids::Offset;
use engine::options::{Backoff, OnFailure, Options};
use engine::ports::Progress;
use tokio::time::Instant;

use crate::rig::{Log, Record, Rig, Store, WALL_START_MS, after, failure, keyed, record, retry, sleep_ms};

const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(1) };

fn options(retry_times: u32, on_failure: OnFailure) -> Options {
    Options { retry_times, on_failure, backoff: BACKOFF, ..Options::default() }
}

fn pauses(times: &[u64]) -> Vec<u64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// k: 0, 1 (never accepted), 3; offset 2 has another key.
fn poisoned() -> Log {
    Log::of([keyed(0, "k"), keyed(1, "k"), keyed(2, "other"), keyed(3, "k")])
}

fn poison(on_failure: OnFailure) -> Rig {
    let script = after(Duration::from_millis(1), |offset, _| if offset == 1 { retry() } else { Outcome::Done });
    Rig::new(options(3, on_failure), script)
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_event_is_bypassed_after_its_round_and_its_key_goes_on() {
    let (rig, log, store) = (poison(OnFailure::Bypass), poisoned(), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(5000).await;
    let attempts = rig.ledger.of(1);
    assert_eq!(attempts.iter().map(|call| call.attempt.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let given_up = rig.ledger.given_up.lock().unwrap().clone();
    let [(1, given_up, bypassed)] = &given_up[..] else { panic!("{given_up:?}") };
    assert_eq!((given_up.attempts, given_up.failure.reason, given_up.failure.code), (4, "status", Some(500)));
    assert_eq!((given_up.first_attempt, given_up.last_attempt), (attempts[0].started, attempts[3].started));
    assert!(rig.ledger.of(3)[0].started >= *bypassed, "the next of the key waits for the bypass");
    assert_eq!(rig.ledger.of(2).len(), 1);
    assert_eq!(store.cursor(), 4);
    assert_eq!(rig.scrape()[r#"mqgate_bypassed_total{group="g",topic="t",reason="status"}"#], 1.0);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_event_is_bypassed_however_often_its_partition_moves() {
    let (rig, log, store) = (poison(OnFailure::Bypass), poisoned(), Store::default());
    let mut from = Progress::default();
    for epoch in 1..4 {
        let handle = rig.resume(epoch, &log, &store, from);
        let calls = rig.ledger.of(1).len();
        while rig.ledger.of(1).len() == calls {
            sleep_ms(1).await;
        }
        sleep_ms(5).await;
        from = handle.release(Duration::ZERO).await;
        assert_eq!(from.tries, [(Offset(1), u32::try_from(epoch).unwrap())]);
    }
    let handle = rig.resume(4, &log, &store, from);
    sleep_ms(2000).await;
    let attempts = rig.ledger.of(1);
    assert_eq!(attempts.iter().map(|call| call.attempt.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(rig.ledger.given_up(), [1]);
    assert_eq!(store.stored().last(), Some(&Progress { cursor: Offset(4), ..Progress::default() }));
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_stored_though_nothing_else_moves() {
    let script = after(Duration::from_millis(1), |_, _| retry());
    let slow = Backoff { initial: Duration::from_secs(600), max: Duration::from_secs(600) };
    let rig = Rig::new(Options { backoff: slow, ..options(9, OnFailure::Bypass) }, script);
    let (log, store) = (Log::of((0..100).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(20_000).await;
    let last = store.stored().last().cloned().unwrap();
    assert_eq!(last.tries, (0..64).map(|offset| (Offset(offset), 1)).collect::<Vec<_>>(), "of no more than are bounded");
    let stored = store.stored().len();
    sleep_ms(20_000).await;
    assert_eq!(store.stored().len(), stored, "and once");
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_event_holds_its_key_for_ever_without_bypass() {
    let sleep = Duration::from_secs(1);
    let (rig, log, store) = (poison(OnFailure::AnotherRound { sleep }), poisoned(), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(60_000).await;
    assert_eq!(store.stored().last(), Some(&Progress { cursor: Offset(1), done: vec![2..3], ..Progress::default() }));
    assert!(rig.ledger.of(3).is_empty());
    assert!(rig.ledger.given_up().is_empty());
    let calls = rig.ledger.of(1);
    assert!(calls.len() > 60);
    for (number, call) in calls.iter().enumerate() {
        assert_eq!((call.attempt.number, call.attempt.round), (number as u32, number as u32 / 4));
    }
    let between_rounds = pauses(&rig.started_ms(1)).into_iter().skip(3).step_by(4);
    between_rounds.for_each(|pause| assert!((1001..=1010).contains(&pause), "{pause}"));
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn attempts_of_a_round_back_off_within_their_bounds() {
    let rig = Rig::new(options(6, OnFailure::Bypass), after(Duration::ZERO, |_, _| retry()));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(20_000).await;
    let pauses = pauses(&rig.started_ms(0));
    assert_eq!(pauses.len(), 6);
    for (pause, whole) in pauses.iter().zip([200, 400, 800, 1000, 1000, 1000]) {
        assert!((whole / 2..=whole + 2).contains(pause), "{pauses:?}");
    }
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn failed_ends_the_round_at_once() {
    let rig = Rig::new(options(9, OnFailure::Bypass), after(Duration::ZERO, |_, _| Outcome::Failed(failure("refused"))));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(1500).await;
    assert_eq!(rig.ledger.calls().len(), 1);
    assert_eq!(rig.ledger.given_up(), [0]);
    assert_eq!(store.cursor(), 1);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_is_no_earlier_than_the_processor_asks_also_in_the_next_round() {
    let script = after(Duration::ZERO, |_, attempt| match attempt.number {
        0 | 1 => Outcome::Retry { not_before: Some(Instant::now() + Duration::from_secs(3)), failure: failure("busy") },
        2 => Outcome::Retry { not_before: Some(Instant::now()), failure: failure("busy") },
        _ => Outcome::Done,
    });
    let sleep = Duration::from_millis(500);
    let rig = Rig::new(options(1, OnFailure::AnotherRound { sleep }), script);
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(20_000).await;
    let pauses = pauses(&rig.started_ms(0));
    assert!((3000..=3002).contains(&pauses[0]), "within the round: {pauses:?}");
    assert!((3000..=3002).contains(&pauses[1]), "before the next round: {pauses:?}");
    assert!((100..=202).contains(&pauses[2]), "own backoff where it is later: {pauses:?}");
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_bypass_is_tried_until_it_succeeds_and_holds_key_and_cursor() {
    let attempts_left = std::sync::atomic::AtomicU32::new(4);
    let bypass = move |_| {
        let left = attempts_left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        if left > 1 { Err("dead-letter topic away".to_owned()) } else { Ok(()) }
    };
    let script = after(Duration::ZERO, |offset, _| if offset == 0 { retry() } else { Outcome::Done });
    let rig = Rig::with(options(0, OnFailure::Bypass), script, Box::new(bypass), usize::MAX);
    let (log, store) = (Log::of([keyed(0, "k"), keyed(1, "k")]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(300).await;
    assert!(rig.ledger.of(1).is_empty());
    sleep_ms(10_000).await;
    assert_eq!(rig.ledger.given_up(), [0, 0, 0, 0]);
    assert_eq!(rig.ledger.calls().len(), 2, "an event that is given up is not attempted again");
    assert_eq!(store.cursor(), 2);
    assert_eq!(rig.scrape()[r#"mqgate_bypass_failures_total{group="g",topic="t"}"#], 3.0);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_bypass_that_fails_is_what_an_operator_sees_and_never_the_reason_of_the_bypass() {
    let works = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let repaired = std::sync::Arc::clone(&works);
    let bypass = move |_| match works.load(std::sync::atomic::Ordering::Relaxed) {
        true => Ok(()),
        false => Err("dead-letter topic d does not exist".to_owned()),
    };
    let rig = Rig::with(options(0, OnFailure::Bypass), after(Duration::ZERO, |_, _| retry()), Box::new(bypass), usize::MAX);
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(1000).await;
    let shown = handle.status().await.oldest.unwrap().last_failure.unwrap();
    assert_eq!((shown.reason, shown.code), ("bypass", Some(500)));
    assert_eq!(shown.detail, "dead-letter topic d does not exist; given up for status: told to fail");
    repaired.store(true, std::sync::atomic::Ordering::Relaxed);
    sleep_ms(5000).await;
    assert_eq!(store.cursor(), 1);
    assert!(rig.ledger.given_up.lock().unwrap().iter().all(|(_, given_up, _)| given_up.failure == failure("status")));
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn retries_that_go_on_for_ever_leave_nothing_behind() {
    let script = after(Duration::from_millis(1), |offset, _| if offset < 200 { retry() } else { Outcome::Done });
    let backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(1) };
    let options = Options { retry_times: u32::MAX, backoff, worker_num: 300, ..Options::default() };
    let (rig, log, store) = (Rig::new(options, script), Log::of((0..200).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    for second in 1..=60 {
        log.append((0..100).map(|more| record(100 + 100 * second + more)));
        sleep_ms(1000).await;
        let status = handle.status().await;
        assert_eq!((status.pending_retries, status.unfinished, status.keys), (200, 200, 0));
    }
    assert_eq!(rig.scrape()[r#"mqgate_pending_retries{group="g"}"#], 200.0);
    let attempts = rig.ledger.calls().iter().filter(|call| call.offset < 200).count();
    assert!((60 * 200..=60 * 400).contains(&attempts), "each pause lies between half a second and one: {attempts}");
    assert_eq!(handle.release(Duration::ZERO).await.cursor, Offset(0));
    assert!(rig.scrape().keys().all(|series| !series.contains("pending_retries")), "gone with the partition");
}

#[tokio::test(start_paused = true)]
async fn durations_without_end_are_no_overflow() {
    let options = Options {
        retry_times: 1,
        backoff: Backoff { initial: Duration::MAX, max: Duration::MAX },
        on_failure: OnFailure::AnotherRound { sleep: Duration::MAX },
        processing_timeout: Some(Duration::MAX),
        delay: Some(Duration::MAX),
        commit_interval: Duration::MAX,
        ..Options::default()
    };
    let (rig, store) = (Rig::new(options, after(Duration::from_millis(1), |_, _| retry())), Store::default());
    let at = |offset, time_ms| Record { time_ms, ..record(offset) };
    let handle = rig.partition(1, &Log::of([at(0, i64::MIN), at(1, WALL_START_MS), at(2, i64::MAX)]), &store);
    sleep_ms(1_000_000).await;
    assert_eq!(rig.ledger.calls().len(), 1, "the first is ready, and waits for its retry");
    assert_eq!(handle.release(Duration::ZERO).await, Progress::default());
}

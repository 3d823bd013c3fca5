//! Letting a partition go.

use std::time::Duration;

use engine::event::Outcome;
use engine::ids::Offset;
use engine::options::{OnFailure, Options};
use engine::ports::Progress;
use engine::task::Permission;
use tokio::time::Instant;

use crate::rig::{Log, Rig, Store, after, hanging, record, retry, sleep_ms};

#[tokio::test(start_paused = true)]
async fn a_release_starts_nothing_waits_for_open_attempts_and_returns_all_of_them() {
    let rig = Rig::new(Options { worker_num: 64, ..Options::default() }, after(Duration::from_millis(500), |_, _| Outcome::Done));
    let (log, store) = (Log::of((0..10_000).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(1300).await;
    let asked = Instant::now();
    let progress = handle.release(Duration::from_secs(25)).await;
    assert!(asked.elapsed() <= Duration::from_millis(210), "{:?}", asked.elapsed());
    assert!(rig.ledger.calls().iter().all(|call| call.started <= asked && call.ended.is_some()));
    assert_eq!(progress, Progress { cursor: Offset(192), done: vec![], ..Progress::default() });
    assert_eq!(rig.ledger.calls().len(), 192);
}

#[tokio::test(start_paused = true)]
async fn what_hangs_is_cut_at_the_deadline_and_does_not_count_as_done() {
    let rig = Rig::new(Options::default(), hanging(|offset| (3..6).contains(&offset)));
    let (log, store) = (Log::of((0..100).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    let asked = Instant::now();
    let progress = handle.release(Duration::from_secs(5)).await;
    assert!((5000..=5010).contains(&asked.elapsed().as_millis()), "{:?}", asked.elapsed());
    assert_eq!(progress, Progress { cursor: Offset(3), done: vec![6..100], ..Progress::default() });
}

#[tokio::test(start_paused = true)]
async fn the_processing_clock_does_not_stop_what_a_release_waits_for() {
    let options = Options { processing_timeout: Some(Duration::from_secs(2)), ..Options::default() };
    let rig = Rig::new(options, after(Duration::from_millis(1900), |_, _| Outcome::Done));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    assert_eq!(handle.release(Duration::from_secs(10)).await.cursor, Offset(1));
    let slow = Rig::new(Options { processing_timeout: Some(Duration::from_secs(2)), ..Options::default() }, hanging(|_| true));
    let handle = slow.partition(1, &log, &store);
    sleep_ms(100).await;
    let asked = Instant::now();
    assert_eq!(handle.release(Duration::from_secs(10)).await, Progress::default());
    assert!(asked.elapsed() >= Duration::from_secs(10), "cut at the deadline of the release, not failed before");
    assert!(slow.ledger.given_up().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_release_without_end_to_its_grace_waits_for_its_attempts() {
    let rig = Rig::new(Options::default(), after(Duration::from_secs(3600), |_, _| Outcome::Done));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    assert_eq!(handle.release(Duration::MAX).await.cursor, Offset(1));
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_the_write_under_way() {
    let rig = Rig::new(Options::default(), hanging(|_| false));
    let (log, store) = (Log::of((0..100).map(record)), Store::default());
    store.take(Duration::from_secs(2));
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    assert_eq!(store.tried_at().len(), 1);
    let progress = handle.release(Duration::ZERO).await;
    assert_eq!(store.stored().len(), 1, "the write has answered");
    assert_eq!(progress.cursor, Offset(100));
    sleep_ms(10_000).await;
    assert_eq!(store.tried_at().len(), 1, "and no other follows");
}

/// Twenty events that always fail; let go inside the pause or inside the attempt, in several ways.
#[tokio::test(start_paused = true)]
async fn cut_is_neither_failed_nor_bypassed() {
    for (moment_ms, way) in [(30, 0), (30, 1), (30, 2), (120, 0), (120, 1), (120, 2)] {
        let script = after(Duration::from_millis(100), |_, _| retry());
        let options = Options { retry_times: 1000, on_failure: OnFailure::Bypass, worker_num: 32, ..Options::default() };
        let (rig, log, store) = (Rig::new(options, script), Log::of((0..20).map(record)), Store::default());
        let handle = rig.partition(1, &log, &store);
        sleep_ms(moment_ms).await;
        let progress = match way {
            0 => handle.release(Duration::ZERO).await,
            1 => {
                handle.set_permission(Permission::Cut);
                sleep_ms(5000).await;
                handle.release(Duration::ZERO).await
            }
            _ => {
                drop(handle);
                sleep_ms(5000).await;
                store.stored().pop().unwrap_or_default()
            }
        };
        let tried = progress.tries.iter().map(|(_, attempts)| *attempts).max();
        assert!(u64::from(tried.unwrap_or(0)) <= moment_ms / 100, "only what failed before the cut counts: {tried:?}");
        assert_eq!(Progress { tries: vec![], ..progress.clone() }, Progress::default());
        assert!(rig.ledger.given_up().is_empty());
        let healthy = Rig::new(Options::default(), hanging(|_| false));
        let handle = healthy.resume(2, &log, &store, progress);
        sleep_ms(2000).await;
        assert_eq!(healthy.ledger.started(), (0..20).collect::<Vec<_>>());
        drop(handle);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_handle_stops_everything_and_frees_its_slots() {
    let rig = Rig::new(Options { worker_num: 2, ..Options::default() }, hanging(|offset| offset < 10));
    let (stuck, store) = (Log::of((0..10).map(record)), Store::default());
    let handle = rig.partition(1, &stuck, &store);
    sleep_ms(100).await;
    let (free, other) = (Log::of((10..20).map(record)), Store::default());
    let second = rig.partition(2, &free, &other);
    sleep_ms(100).await;
    assert_eq!(rig.ledger.calls().len(), 2);
    drop(handle);
    sleep_ms(2000).await;
    assert_eq!(other.cursor(), 20);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_paused_partition_can_be_released() {
    let rig = Rig::new(Options::default(), hanging(|_| false));
    let (log, store) = (Log::of((0..10).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    handle.set_permission(Permission::Pause);
    sleep_ms(100).await;
    assert_eq!(handle.release(Duration::from_secs(25)).await.cursor, Offset(0));
    assert!(rig.ledger.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_given_up_with_its_handle_cuts_at_once() {
    let rig = Rig::new(Options { worker_num: 1, ..Options::default() }, hanging(|offset| offset == 0));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    let given_up = tokio::time::timeout(Duration::from_secs(1), handle.release(Duration::from_secs(60))).await;
    assert!(given_up.is_err());
    drop(handle);
    let (other, cursor) = (Log::of([record(1)]), Store::default());
    let second = rig.partition(2, &other, &cursor);
    sleep_ms(100).await;
    assert_eq!(rig.ledger.of(1).len(), 1, "the slot is free");
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_cut_during_a_release_ends_it_at_once_and_nothing_open_counts_as_done() {
    let rig = Rig::new(Options::default(), hanging(|offset| offset == 3));
    let (log, store) = (Log::of((0..10).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    let asked = Instant::now();
    let cut = async {
        sleep_ms(500).await;
        handle.set_permission(Permission::Cut);
        handle.set_permission(Permission::Run);
    };
    let (progress, ()) = tokio::join!(handle.release(Duration::from_secs(25)), cut);
    assert!((500..=510).contains(&asked.elapsed().as_millis()), "{:?}", asked.elapsed());
    assert_eq!(progress, Progress { cursor: Offset(3), done: vec![4..10], ..Progress::default() });
}

#[tokio::test(start_paused = true)]
async fn a_second_release_says_what_was_stored() {
    let rig = Rig::new(Options::default(), hanging(|_| false));
    let (log, store) = (Log::of((0..10).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(5000).await;
    assert_eq!(handle.release(Duration::ZERO).await.cursor, Offset(10));
    assert_eq!(handle.release(Duration::ZERO).await.cursor, Offset(10));
}

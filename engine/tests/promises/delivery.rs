//! The plain way of an event, and what is not plain about it.

use std::time::Duration;

use engine::event::{Failure, Outcome};
use engine::ids::Offset;
use engine::options::Options;
use engine::ports::{Progress, SourceError};
use engine::task::{Ended, Permission};

use crate::rig::{Log, Record, Rig, Store, after, hanging, record, sleep_ms};

fn instantly() -> Rig {
    Rig::new(Options::default(), hanging(|_| false))
}

#[tokio::test(start_paused = true)]
async fn everything_is_processed_once_and_the_cursor_reaches_the_end() {
    let rig = Rig::new(Options::default(), after(Duration::from_millis(3), |_, _| Outcome::Done));
    let (log, store) = (Log::of((0..1000).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(5000).await;
    let mut started = rig.ledger.started();
    started.sort_unstable();
    assert_eq!(started, (0..1000).collect::<Vec<_>>());
    assert_eq!(store.cursor(), 1000);
    assert_eq!(handle.release(Duration::ZERO).await.cursor.0, 1000);
    assert_eq!(rig.ledger.most_at_once(|_| true), 16);
}

#[tokio::test(start_paused = true)]
async fn the_cursor_stays_before_a_hole_and_what_lies_behind_is_remembered() {
    let rig = Rig::new(Options::default(), hanging(|offset| offset == 5));
    let (log, store) = (Log::of((0..100).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(10_000).await;
    drop(handle);
    assert_eq!(store.stored().last(), Some(&Progress { cursor: Offset(5), done: vec![6..100], ..Progress::default() }));
    let again = instantly();
    let handle = again.resume(2, &log, &store, store.stored().pop().unwrap());
    sleep_ms(2000).await;
    assert_eq!(again.ledger.started(), [5], "what is done is not done again");
    assert_eq!(store.cursor(), 100);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn the_cursor_follows_the_reader_over_what_yields_no_record() {
    let (rig, log, store) = (instantly(), Log::of([3, 7, 9].map(record)), Store::default());
    log.append([Record { event_type: "skip", ..record(10) }]);
    log.end_at(15);
    let handle = rig.partition(1, &log, &store);
    sleep_ms(1500).await;
    assert_eq!(store.cursor(), 15);
    log.end_at(20);
    sleep_ms(1500).await;
    assert_eq!(store.cursor(), 20, "also when idle");
    let series = rig.scrape();
    assert_eq!(series[r#"mqgate_skipped_records_total{group="g",topic="t",reason="unwanted"}"#], 1.0);
    assert_eq!(series[r#"mqgate_delivered_total{group="g",topic="t"}"#], 3.0);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_hole_in_the_offsets_is_nothing_to_wait_for() {
    let rig = Rig::new(Options::default(), after(Duration::from_secs(5), |_, _| Outcome::Done));
    let (log, store) = (Log::of([3, 6, 7, 8, 9, 10].map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(2000).await;
    assert_eq!(handle.status().await.unfinished, 6, "records are counted, not offsets");
    sleep_ms(5000).await;
    assert_eq!(store.cursor(), 11);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_processor_is_a_failed_attempt() {
    let script = after(Duration::ZERO, |offset, attempt| {
        assert!(offset != 1 || attempt.number > 0, "on purpose");
        Outcome::Done
    });
    let options = Options { retry_times: 1, ..Options::default() };
    let (rig, log, store) = (Rig::new(options, script), Log::of((0..3).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(50).await;
    let failure = handle.status().await.oldest.unwrap().last_failure.unwrap();
    assert_eq!(failure.reason, Failure::PANIC);
    sleep_ms(2000).await;
    assert_eq!(rig.ledger.of(1).len(), 2);
    assert_eq!(store.cursor(), 3);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_ends_reading_and_what_was_read_is_still_delivered() {
    let rig = Rig::new(Options::default(), after(Duration::from_secs(2), |_, _| Outcome::Done));
    let (log, store) = (Log::of((0..3).map(record)), Store::default());
    log.fail("gone");
    let mut handle = rig.partition(1, &log, &store);
    let Ended::Source(error) = handle.ended().await else { panic!("the source ended") };
    assert_eq!(error.to_string(), "gone");
    sleep_ms(4000).await;
    assert_eq!(store.cursor(), 3);
    assert!(matches!(handle.ended().await, Ended::Source(_)), "asked again, it says so again");
    assert_eq!(handle.release(Duration::ZERO).await.cursor, Offset(3));
}

#[tokio::test(start_paused = true)]
async fn a_source_whose_log_is_gone_says_so() {
    let (rig, log) = (instantly(), Log::default());
    log.end_with(SourceError::Gone("topic t does not exist".into()));
    let mut handle = rig.partition(1, &log, &Store::default());
    assert_eq!(handle.ended().await, Ended::Source(SourceError::Gone("topic t does not exist".into())));
}

#[tokio::test(start_paused = true)]
async fn a_decoder_that_panics_stops_reading_and_loses_nothing() {
    let log = Log::of([record(0), Record { event_type: "broken decoder", ..record(1) }, record(2)]);
    let (rig, store) = (instantly(), Store::default());
    let mut handle = rig.partition(1, &log, &store);
    let Ended::Source(error) = handle.ended().await else { panic!("the decoder ended it") };
    assert!(error.to_string().contains("offset 1"), "{error}");
    sleep_ms(1500).await;
    assert_eq!(handle.release(Duration::ZERO).await, Progress { cursor: Offset(1), done: vec![], ..Progress::default() });
}

#[tokio::test(start_paused = true)]
async fn a_paused_partition_starts_nothing_and_lets_open_attempts_end() {
    let rig = Rig::new(Options { worker_num: 2, ..Options::default() }, after(Duration::from_secs(1), |_, _| Outcome::Done));
    let (log, store) = (Log::of((0..10).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(500).await;
    handle.set_permission(Permission::Pause);
    sleep_ms(10_000).await;
    assert_eq!(rig.ledger.started(), [0, 1]);
    assert_eq!(store.cursor(), 2, "progress is stored while paused");
    handle.set_permission(Permission::Run);
    sleep_ms(10_000).await;
    assert_eq!(store.cursor(), 10);
    assert_eq!(rig.ledger.calls().len(), 10);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_cut_attempt_is_made_again_with_its_number() {
    let rig = Rig::new(Options { retry_times: 3, ..Options::default() }, after(Duration::from_secs(1), |_, _| Outcome::Done));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(500).await;
    handle.set_permission(Permission::Cut);
    sleep_ms(5000).await;
    assert_eq!(rig.ledger.calls().len(), 1);
    assert_eq!(handle.status().await.in_flight, 0);
    handle.set_permission(Permission::Run);
    sleep_ms(3000).await;
    let numbers: Vec<_> = rig.ledger.of(0).iter().map(|call| call.attempt.number).collect();
    assert_eq!(numbers, [0, 0]);
    assert_eq!(store.cursor(), 1);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_cut_cuts_what_is_open_however_soon_it_may_run_again() {
    let rig = Rig::new(Options { worker_num: 4, ..Options::default() }, after(Duration::from_secs(1), |_, _| Outcome::Done));
    let (log, store) = (Log::of((0..4).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(500).await;
    handle.set_permission(Permission::Cut);
    handle.set_permission(Permission::Run);
    sleep_ms(3000).await;
    let calls = rig.ledger.calls();
    assert_eq!(calls.iter().map(|call| call.ended.is_some()).collect::<Vec<_>>(), [[false; 4], [true; 4]].concat());
    assert!(calls.iter().all(|call| call.attempt.number == 0), "a cut attempt is none");
    assert_eq!(store.cursor(), 4);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_processor_that_says_cut_is_not_asked_in_a_hot_loop() {
    let rig = Rig::new(Options::default(), after(Duration::ZERO, |_, _| Outcome::Cut));
    let (log, store) = (Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(1000).await;
    let asked = rig.ledger.calls().len();
    assert!((10..=60).contains(&asked), "{asked}");
    assert_eq!(handle.release(Duration::ZERO).await, Progress::default());
}

//! When progress is stored.

use std::time::Duration;

use engine::event::Outcome;
use engine::ids::Offset;
use engine::options::Options;
use engine::ports::{CommitError, Progress};
use engine::task::{Blocked, Ended};
use tokio::time::Instant;

use crate::rig::{Log, Rig, Store, after, hanging, record, sleep_ms};

fn steady() -> Rig {
    Rig::new(Options { worker_num: 1, ..Options::default() }, after(Duration::from_millis(10), |_, _| Outcome::Done))
}

#[tokio::test(start_paused = true)]
async fn a_moving_cursor_is_stored_once_an_interval_and_an_idle_one_never() {
    let (rig, log, store) = (steady(), Log::of((0..1000).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(60_000).await;
    let times: Vec<_> = store.tried_at().into_iter().map(|at| rig.ms(at)).collect();
    assert!((11..=13).contains(&times.len()), "ten seconds of work: {times:?}");
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 1000), "{times:?}");
    assert_eq!(store.cursor(), 1000);
    let cursors: Vec<_> = store.stored().into_iter().map(|progress| progress.cursor).collect();
    assert!(cursors.is_sorted());
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn at_most_one_write_is_under_way_and_the_interval_stretches_visibly() {
    let (rig, log, store) = (steady(), Log::of((0..1000).map(record)), Store::default());
    store.take(Duration::from_secs(3));
    let handle = rig.partition(1, &log, &store);
    sleep_ms(9500).await;
    let times = store.tried_at();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(3)));
    assert_eq!(rig.scrape()[r#"mqgate_commit_interval_seconds{group="g"}"#].round(), 3.0);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_written_too_much_to_stretches_the_interval_visibly() {
    let (rig, log, store) = (steady(), Log::of((0..2000).map(record)), Store::default());
    store.ask_for(Duration::from_secs(4));
    let handle = rig.partition(1, &log, &store);
    sleep_ms(15_000).await;
    let times = store.tried_at();
    assert!(times.len() >= 3 && times[1..].windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(4)), "{times:?}");
    assert_eq!(rig.scrape()[r#"mqgate_commit_interval_seconds{group="g"}"#].round(), 4.0);
    store.ask_for(Duration::ZERO);
    sleep_ms(10_000).await;
    assert_eq!(store.cursor(), 2000);
    assert_eq!(rig.scrape()[r#"mqgate_commit_interval_seconds{group="g"}"#].round(), 1.0);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_stored_is_stored_again_with_the_next_interval() {
    let (rig, log, store) = (steady(), Log::of((0..10).map(record)), Store::default());
    store.answer(Err(CommitError::Again("no answer".into())));
    let handle = rig.partition(1, &log, &store);
    sleep_ms(5500).await;
    assert_eq!(store.cursor(), 0);
    assert!((5..=7).contains(&store.tried_at().len()), "{}", store.tried_at().len());
    let status = handle.status().await;
    assert_eq!(status.unstored_completions, 10);
    assert!(status.commit_error.unwrap().contains("no answer"));
    store.answer(Ok(()));
    sleep_ms(1500).await;
    assert_eq!(store.cursor(), 10);
    let series = rig.scrape();
    assert_eq!(series[r#"mqgate_cursor_writes_total{outcome="stored"}"#], 1.0);
    assert!(series[r#"mqgate_cursor_writes_total{outcome="again"}"#] >= 5.0);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_repeated_no_faster_however_much_waits_for_it() {
    let options = Options { max_unstored_completions: 10, ..Options::default() };
    let (rig, log, store) = (Rig::new(options, hanging(|_| false)), Log::of((0..100).map(record)), Store::default());
    store.answer(Err(CommitError::Again("slow and away".into())));
    store.take(Duration::from_secs(3));
    let handle = rig.partition(1, &log, &store);
    sleep_ms(30_000).await;
    let times = store.tried_at();
    assert!(times.len() >= 7);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(4)), "an interval after each answer");
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn an_ownership_that_is_over_cuts_everything_and_writes_nothing_more() {
    let rig = Rig::new(Options { worker_num: 4, ..Options::default() }, hanging(|offset| offset == 2));
    let (log, store) = (Log::of((0..3).map(record)), Store::default());
    store.answer(Err(CommitError::Over("owned by another".into())));
    let mut handle = rig.partition(1, &log, &store);
    assert_eq!(handle.ended().await, Ended::OwnershipOver("owned by another".into()));
    log.append((3..50).map(record));
    sleep_ms(5000).await;
    assert_eq!(rig.ledger.calls().len(), 3, "no attempt starts any more");
    assert_eq!(handle.status().await.in_flight, 0);
    assert_eq!(store.tried_at().len(), 1);
    assert_eq!(handle.release(Duration::from_secs(5)).await.cursor, Offset(2));
}

#[tokio::test(start_paused = true)]
async fn half_the_bound_on_unstored_completions_is_stored_at_once() {
    let options = Options { max_unstored_completions: 100, commit_interval: Duration::from_secs(60), ..Options::default() };
    let (rig, log, store) = (Rig::new(options, after(Duration::from_millis(10), |_, _| Outcome::Done)), Log::default(), Store::default());
    let handle = rig.partition(1, &log, &store);
    log.append((0..1000).map(record));
    sleep_ms(2000).await;
    assert!(store.cursor() >= 950, "{}", store.cursor());
    assert!((15..=21).contains(&store.tried_at().len()), "{}", store.tried_at().len());
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn at_the_bound_on_unstored_completions_no_attempt_starts() {
    let options = Options { max_unstored_completions: 100, worker_num: 1, ..Options::default() };
    let (rig, log, store) = (Rig::new(options, hanging(|_| false)), Log::of((0..1000).map(record)), Store::default());
    store.take(Duration::from_secs(10));
    let handle = rig.partition(1, &log, &store);
    sleep_ms(9000).await;
    assert_eq!(rig.ledger.calls().len(), 100);
    assert_eq!(handle.status().await.blocked, Some(Blocked::UnstoredCompletions));
    sleep_ms(200_000).await;
    assert_eq!(store.cursor(), 1000);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_start_with_a_done_set_repeats_nothing_of_it() {
    let (rig, log, store) = (Rig::new(Options::default(), hanging(|_| false)), Log::of((0..30).map(record)), Store::default());
    let from = Progress { cursor: Offset(5), done: vec![7..9, 12..20, 40..50], ..Progress::default() };
    let handle = rig.resume(1, &log, &store, from);
    sleep_ms(1500).await;
    let mut started = rig.ledger.started();
    started.sort_unstable();
    assert_eq!(started, [5, 6].into_iter().chain(9..12).chain(20..30).collect::<Vec<_>>());
    assert_eq!(store.stored().last(), Some(&Progress { cursor: Offset(30), done: vec![40..50], ..Progress::default() }));
    log.append((30..60).map(record));
    sleep_ms(1500).await;
    assert_eq!(store.stored().last(), Some(&Progress { cursor: Offset(60), done: vec![], ..Progress::default() }));
    assert!(rig.ledger.started().iter().all(|offset| !(40..50).contains(offset)));
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn an_idle_partition_is_not_woken() {
    let options = Options { delay: Some(Duration::from_millis(1)), ..Options::default() };
    let (rig, log, store) = (Rig::new(options, hanging(|_| false)), Log::of((0..5).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(3000).await;
    assert_eq!(store.cursor(), 5);
    let looks = rig.clock.read();
    assert!(looks > 0);
    sleep_ms(86_400_000).await;
    assert_eq!(rig.clock.read(), looks, "a day, and not one look");
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_only_waits_is_not_woken_before_its_time() {
    let options = Options { retry_times: 1, delay: Some(Duration::from_millis(1)), ..Options::default() };
    let script = after(Duration::ZERO, |_, attempt| match attempt.number {
        0 => Outcome::Retry { not_before: Some(Instant::now() + Duration::from_secs(3600)), failure: crate::rig::failure("busy") },
        _ => Outcome::Done,
    });
    let (rig, log, store) = (Rig::new(options, script), Log::of([record(0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(10_000).await;
    let looks = rig.clock.read();
    sleep_ms(3_500_000).await;
    assert_eq!(rig.clock.read(), looks);
    sleep_ms(100_000).await;
    assert_eq!(store.cursor(), 1);
    drop(handle);
}

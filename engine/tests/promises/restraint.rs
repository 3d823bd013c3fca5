//! A receiver that fails at once is not hammered, and one that works again is served at once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use engine::event::Outcome;
use engine::options::{OnFailure, Options};
use tokio::time::Instant;

use crate::rig::{Log, Rig, Store, after, record, retry, sleep_ms};

/// Refuses at once, until it is opened; then each attempt takes 10 ms.
fn refusing(options: Options) -> (Rig, Arc<AtomicBool>) {
    let open = Arc::new(AtomicBool::new(false));
    let works = Arc::clone(&open);
    let script = move |_, _| {
        let works = works.load(Relaxed);
        let answer = async move {
            if !works {
                return retry();
            }
            sleep_ms(10).await;
            Outcome::Done
        };
        Box::pin(answer) as Pin<Box<dyn Future<Output = Outcome> + Send>>
    };
    (Rig::new(options, Box::new(script)), open)
}

#[tokio::test(start_paused = true)]
async fn a_task_makes_about_400_attempts_a_second_while_everything_fails() {
    for worker_num in [1, 16, 64, 300] {
        let (rig, _) = refusing(Options { worker_num, ..Options::default() });
        let (logs, store) = ([0, 1].map(|_| Log::of((0..10_000).map(record))), Store::default());
        let handles = [0, 1].map(|number| rig.partition(number as u64, &logs[number], &store));
        sleep_ms(1000).await;
        let before = rig.ledger.calls().len();
        sleep_ms(10_000).await;
        let attempts = rig.ledger.calls().len() - before;
        let expected = if worker_num == 1 { 450..=501 } else { 3600..=4400 };
        assert!(expected.contains(&attempts), "{attempts} attempts in 10 s with {worker_num} workers");
        drop(handles);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_success_ends_the_restraint_at_once_in_every_partition() {
    let (rig, open) = refusing(Options { worker_num: 400, ..Options::default() });
    let (logs, store) = ([0, 1].map(|_| Log::default()), Store::default());
    let handles = [0, 1].map(|number| rig.partition(number as u64, &logs[number], &store));
    // Bit by bit, so that the slots that are kept become free one by one.
    for burst in 0..300 {
        logs.iter().for_each(|log| log.append((0..2).map(|more| record(2 * burst + more))));
        sleep_ms(10).await;
    }
    let before = rig.ledger.calls().len();
    while rig.ledger.calls().len() == before {
        sleep_ms(10).await;
    }
    logs.iter().for_each(|log| log.append((600..3000).map(record)));
    sleep_ms(100).await;
    let opened = Instant::now();
    open.store(true, Relaxed);
    sleep_ms(50).await;
    for partition in [0, 1] {
        let attempts = rig.ledger.calls().iter().filter(|call| call.partition == partition && call.started >= opened).count();
        assert!(attempts > 400, "{attempts} attempts in 50 ms");
    }
    drop(handles);
}

#[tokio::test(start_paused = true)]
async fn some_that_fail_among_many_that_succeed_hold_nothing_back() {
    let script = after(Duration::from_millis(10), |offset, _| if offset % 100 == 0 { retry() } else { Outcome::Done });
    let rig = Rig::new(Options { worker_num: 100, ..Options::default() }, script);
    let (log, store) = (Log::of((0..50_000).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    while rig.ledger.calls().iter().filter(|call| call.offset % 100 != 0).count() < 49_500 {
        sleep_ms(10).await;
    }
    let took = rig.started.elapsed().as_millis();
    // 500 that fail are attempted again every second or so.
    assert!((5_000..=5_700).contains(&took), "50,000 attempts of 10 ms in 100 slots: {took} ms");
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn few_that_fail_keep_their_own_timing() {
    let on_failure = OnFailure::AnotherRound { sleep: Duration::from_secs(1) };
    let (rig, _) = refusing(Options { worker_num: 16, on_failure, ..Options::default() });
    let (log, store) = (Log::of((0..200).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(20_500).await;
    for offset in 0..200 {
        let times = rig.started_ms(offset);
        let pauses: Vec<_> = times[1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.iter().all(|pause| (1000..=1050).contains(pause)), "{offset}: {pauses:?}");
    }
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn what_takes_long_to_fail_is_not_slowed_down_further() {
    let rig = Rig::new(Options { worker_num: 16, ..Options::default() }, after(Duration::from_millis(100), |_, _| retry()));
    let (log, store) = (Log::of((0..10_000).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(20_000).await;
    let attempts = rig.ledger.calls().len();
    assert!((3000..=3216).contains(&attempts), "16 slots, 100 ms each, 20 s: {attempts}");
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_taken_in_at_once_although_its_slot_is_kept() {
    let (rig, _) = refusing(Options { worker_num: 400, ..Options::default() });
    let (log, store) = (Log::of((0..2_000).map(record)), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(2_010).await;
    let status = handle.status().await;
    assert_eq!((status.in_flight, status.pending_retries as u64), (0, 2_000.min(rig.ledger.calls().len() as u64)));
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn slots_that_are_kept_are_free_once_their_partition_is_released_or_dropped() {
    let failures = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&failures);
    let script = after(Duration::ZERO, move |_, attempt| {
        if attempt.epoch.0 == 3 {
            return Outcome::Done;
        }
        count.fetch_add(1, Relaxed);
        retry()
    });
    let rig = Rig::new(Options { worker_num: 400, ..Options::default() }, script);
    let (log, store) = (Log::of((0..10_000).map(record)), Store::default());
    let handles = [1, 2].map(|number| rig.partition(number, &log, &store));
    sleep_ms(900).await;
    assert!(failures.load(Relaxed) >= 1200, "every slot is kept");
    let [released, dropped] = handles;
    let asked = Instant::now();
    released.release(Duration::from_secs(25)).await;
    drop(dropped);
    let other = rig.partition(3, &Log::of([record(0)]), &store);
    sleep_ms(2).await;
    assert!(asked.elapsed() < Duration::from_millis(10), "{:?}", asked.elapsed());
    assert_eq!(rig.ledger.calls().iter().filter(|call| call.partition == 3).count(), 1);
    drop(other);
}

//! Delayed processing.

use std::time::Duration;

use engine::event::Outcome;
use engine::options::Options;

use crate::rig::{Log, Record, Rig, Store, WALL_START_MS, after, hanging, keyed, sleep_ms};

const DELAY: Duration = Duration::from_secs(60);

fn aged(offset: u64, key: &'static str, age_ms: i64) -> Record {
    Record { time_ms: WALL_START_MS - age_ms, ..keyed(offset, key) }
}

fn options() -> Options {
    Options { delay: Some(DELAY), worker_num: 1, ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn events_wait_for_their_time_and_hold_no_slot_meanwhile() {
    let rig = Rig::new(options(), hanging(|_| false));
    let log = Log::of([aged(0, "a", 0), aged(1, "b", 120_000), aged(2, "c", 50_000), aged(3, "d", 20_000), aged(4, "e", -3_600_000)]);
    let store = Store::default();
    let handle = rig.partition(1, &log, &store);
    sleep_ms(1000).await;
    assert_eq!(handle.status().await.in_flight, 0);
    sleep_ms(70_000).await;
    let started: Vec<_> = (0..5).map(|offset| rig.started_ms(offset)[0]).collect();
    let expected = [60_000, 0, 10_000, 40_000, 60_000];
    for (offset, (started, expected)) in started.iter().zip(expected).enumerate() {
        assert!((expected..=expected + 5).contains(started), "offset {offset}: {started} instead of {expected}");
    }
    assert_eq!(store.cursor(), 5);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_head_holds_back_its_key_and_offset_order_wins() {
    let rig = Rig::new(options(), hanging(|_| false));
    let (log, store) = (Log::of([aged(0, "k", 0), aged(1, "k", 120_000), aged(2, "other", 120_000)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(70_000).await;
    assert_eq!(rig.ledger.started(), [2, 0, 1]);
    assert!((60_000..=60_005).contains(&rig.started_ms(1)[0]));
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_successor_still_waits_for_its_own_time() {
    let rig = Rig::new(options(), after(Duration::from_millis(10), |_, _| Outcome::Done));
    let (log, store) = (Log::of([aged(0, "k", 59_000), aged(1, "k", 30_000)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(40_000).await;
    assert!((1000..=1005).contains(&rig.started_ms(0)[0]));
    assert!((30_000..=30_005).contains(&rig.started_ms(1)[0]));
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_wait_for_delayed_events() {
    let rig = Rig::new(options(), hanging(|_| false));
    let (log, store) = (Log::of([aged(0, "k", 0)]), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(100).await;
    let asked = rig.ms(tokio::time::Instant::now());
    assert_eq!(handle.release(Duration::from_secs(25)).await.cursor.0, 0);
    assert_eq!(rig.ms(tokio::time::Instant::now()), asked);
}

//! The gate before the processor.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::event::{Failure, Outcome};
use engine::options::{Backoff, OnFailure, Options};
use engine::ports::Gate;
use engine::task::{PartitionHandle, Permission};
use tokio::time::Instant;

use crate::rig::{Log, Rig, Store, after, record, retry, sleep_ms};

/// Open, or shut since then.
#[derive(Clone, Default)]
struct Door(Arc<Mutex<Option<Instant>>>);

impl Door {
    fn shut(&self, since: Instant) {
        *self.0.lock().unwrap() = Some(since);
    }

    fn open(&self, handle: &PartitionHandle) {
        *self.0.lock().unwrap() = None;
        handle.set_permission(Permission::Run);
    }
}

impl Gate for Door {
    fn shut_since(&self) -> Option<Instant> {
        *self.0.lock().unwrap()
    }
}

fn bypassing(retry_times: u32) -> Options {
    let backoff = Backoff { initial: Duration::from_millis(400), max: Duration::from_millis(400) };
    let timeout = Some(Duration::from_secs(2));
    Options { retry_times, processing_timeout: timeout, backoff, on_failure: OnFailure::Bypass, ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_attempted_behind_a_shut_gate() {
    let rig = Rig::new(Options::default(), after(Duration::ZERO, |_, _| Outcome::Done));
    let (log, store, door) = (Log::of((0..5).map(record)), Store::default(), Door::default());
    door.shut(Instant::now());
    let handle = rig.behind(door.clone(), 1, &log, &store);
    sleep_ms(5000).await;
    assert!(rig.ledger.calls().is_empty());
    door.open(&handle);
    sleep_ms(100).await;
    assert_eq!(rig.ledger.calls().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_fails_behind_a_shut_gate_is_cut_not_failed() {
    let rig =
        Rig::new(bypassing(0), after(Duration::from_millis(500), |_, attempt| if attempt.epoch.0 == 1 { retry() } else { Outcome::Done }));
    let (log, store, door) = (Log::of([record(0)]), Store::default(), Door::default());
    let handle = rig.behind(door.clone(), 1, &log, &store);
    sleep_ms(100).await;
    door.shut(Instant::now());
    sleep_ms(5000).await;
    assert_eq!(rig.ledger.calls().len(), 1);
    assert!(rig.ledger.given_up().is_empty(), "its only attempt failed when nothing could fail");
    door.open(&handle);
    sleep_ms(1000).await;
    assert_eq!(rig.ledger.of(0)[1].attempt.number, 0, "as if the first had never been made");
    assert_eq!(rig.ledger.given_up(), [0]);
}

#[tokio::test(start_paused = true)]
async fn what_succeeds_behind_a_shut_gate_is_done() {
    let rig = Rig::new(Options::default(), after(Duration::from_millis(500), |_, _| Outcome::Done));
    let (log, store, door) = (Log::of([record(0)]), Store::default(), Door::default());
    let handle = rig.behind(door.clone(), 1, &log, &store);
    sleep_ms(100).await;
    door.shut(Instant::now());
    sleep_ms(1000).await;
    assert_eq!(handle.release(Duration::ZERO).await.cursor.0, 1);
}

/// As after a freeze: the timer of the round and the end of the permission are found out at once.
#[tokio::test(start_paused = true)]
async fn the_processing_clock_stood_still_since_the_gate_was_shut() {
    let rig = Rig::new(bypassing(1000), after(Duration::ZERO, |_, _| retry()));
    let (log, store, door) = (Log::of([record(0)]), Store::default(), Door::default());
    let handle = rig.behind(door.clone(), 1, &log, &store);
    sleep_ms(1000).await;
    let before = rig.ledger.calls().len();
    door.shut(Instant::now());
    sleep_ms(60_000).await;
    assert!(rig.ledger.given_up().is_empty());
    door.open(&handle);
    sleep_ms(900).await;
    assert!(rig.ledger.given_up().is_empty(), "a second of its two is left");
    assert!(rig.ledger.calls().len() > before);
    sleep_ms(200).await;
    let given_up = rig.ledger.given_up.lock().unwrap().clone();
    assert_eq!(given_up[0].1.failure.reason, Failure::PROCESSING_TIMEOUT);
}

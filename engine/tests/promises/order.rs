//! Which events wait for which.

use std::time::Duration;

use engine::event::Outcome;
use engine::options::{Options, Order};

use crate::rig::{Call, Log, Rig, Store, after, keyed, record, sleep_ms};

fn rig(order: Order) -> Rig {
    Rig::new(Options { order, worker_num: 100, ..Options::default() }, after(Duration::from_millis(50), |_, _| Outcome::Done))
}

/// 300 records each: no key, the empty key, the key "null".
fn mixed_keys() -> Log {
    Log::of((0..900).map(|offset| match offset % 3 {
        0 => record(offset),
        1 => keyed(offset, ""),
        _ => keyed(offset, "null"),
    }))
}

fn with_remainder(remainder: u64) -> impl Fn(&Call) -> bool {
    move |call| call.offset % 3 == remainder
}

#[tokio::test(start_paused = true)]
async fn no_key_means_no_order_and_the_empty_key_is_a_key() {
    let (rig, log, store) = (rig(Order::Key), mixed_keys(), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(60_000).await;
    assert_eq!(store.cursor(), 900);
    assert!(rig.ledger.most_at_once(with_remainder(0)) > 50);
    for key in [1, 2] {
        assert_eq!(rig.ledger.most_at_once(with_remainder(key)), 1);
        let started: Vec<_> = rig.ledger.started().into_iter().filter(|offset| offset % 3 == key).collect();
        assert!(started.is_sorted() && started.len() == 300);
    }
    assert_eq!(rig.ledger.most_at_once(|call| call.offset % 3 > 0), 2, "two keys, side by side");
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn partition_order_is_one_at_a_time_whatever_the_key() {
    let (rig, log, store) = (rig(Order::Partition), mixed_keys(), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(60_000).await;
    assert_eq!(store.cursor(), 900);
    assert_eq!(rig.ledger.most_at_once(|_| true), 1);
    assert!(rig.ledger.started().is_sorted());
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn no_order_lets_records_of_one_key_run_side_by_side() {
    let (rig, log, store) = (rig(Order::None), Log::of((0..900).map(|offset| keyed(offset, "k"))), Store::default());
    let handle = rig.partition(1, &log, &store);
    sleep_ms(5000).await;
    assert_eq!(store.cursor(), 900);
    assert_eq!(rig.ledger.most_at_once(|_| true), 100);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_head_holds_back_its_own_key_only() {
    let script = after(Duration::from_millis(1), |offset, attempt| match (offset, attempt.number) {
        (0, 0) => Outcome::Failed(crate::rig::failure("status")),
        _ => Outcome::Done,
    });
    let rig = Rig::new(Options::default(), script);
    let log = Log::of((0..100).map(|offset| keyed(offset, if offset % 2 == 0 { "stuck" } else { "free" })));
    let (handle, store) = (rig.partition(1, &log, &Store::default()), Store::default());
    sleep_ms(500).await;
    let done: Vec<_> = rig.ledger.started().into_iter().filter(|offset| *offset > 0).collect();
    assert_eq!(done, (0..100).filter(|offset| offset % 2 == 1).collect::<Vec<_>>());
    assert_eq!(handle.status().await.keys, 1, "a key without unfinished events is forgotten");
    sleep_ms(2000).await;
    assert_eq!(rig.ledger.calls().len(), 101);
    drop((handle, store));
}

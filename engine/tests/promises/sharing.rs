//! What partitions and event types share.

use std::time::Duration;

use engine::event::Outcome;
use engine::options::{EventTypes, OnFailure, Options};
use engine::task::Permission;

use crate::rig::{Log, Record, Rig, Store, after, record, retry, sleep_ms};

#[tokio::test(start_paused = true)]
async fn a_busy_partition_leaves_another_its_fair_share_of_the_slots() {
    let rig = Rig::new(Options { worker_num: 4, ..Options::default() }, after(Duration::from_millis(20), |_, _| Outcome::Done));
    let (busy, quiet, store) = (Log::of((0..100_000).map(record)), Log::default(), Store::default());
    let first = rig.partition(1, &busy, &store);
    sleep_ms(1000).await;
    let second = rig.partition(2, &quiet, &Store::default());
    let ends = |partition: u64| rig.ledger.calls().iter().filter(|call| call.partition == partition && call.ended.is_some()).count();
    let (busy_before, started) = (ends(1), tokio::time::Instant::now());
    quiet.append((0..100).map(record));
    while ends(2) < 100 {
        sleep_ms(10).await;
    }
    let took = started.elapsed().as_millis();
    assert!((900..=1150).contains(&took), "100 events in two of four slots, 20 ms each: {took}");
    let busy_meanwhile = ends(1) - busy_before;
    assert!((90..=130).contains(&busy_meanwhile), "{busy_meanwhile}");
    drop((first, second));
}

#[tokio::test(start_paused = true)]
async fn sparse_events_wait_for_one_slot_at_most() {
    let rig = Rig::new(Options { worker_num: 4, ..Options::default() }, after(Duration::from_millis(20), |_, _| Outcome::Done));
    let (busy, quiet, store) = (Log::of((0..100_000).map(record)), Log::default(), Store::default());
    let first = rig.partition(1, &busy, &store);
    let second = rig.partition(2, &quiet, &Store::default());
    for offset in 0..50 {
        sleep_ms(37).await;
        let appended = tokio::time::Instant::now();
        quiet.append([record(offset)]);
        sleep_ms(30).await;
        let calls = rig.ledger.calls();
        let call = calls.iter().find(|call| call.partition == 2 && call.offset == offset).unwrap();
        assert!(call.started - appended <= Duration::from_millis(22), "{:?}", call.started - appended);
    }
    drop((first, second));
}

fn typed(offset: u64, event_type: &'static str) -> Record {
    Record { event_type, ..record(offset) }
}

#[tokio::test(start_paused = true)]
async fn a_type_with_a_limit_keeps_to_it_over_all_partitions_and_holds_back_no_other() {
    let event_types = EventTypes::new(vec![("slow".into(), Some(4)), ("fast".into(), None)]);
    let slow = event_types.resolve(b"slow");
    let options = Options { worker_num: 10, event_types, ..Options::default() };
    let rig = Rig::new(options, after(Duration::from_millis(100), |_, _| Outcome::Done));
    let log = || Log::of((0..200).map(|offset| typed(offset, if offset < 100 { "slow" } else { "fast" })));
    let (logs, store) = ([log(), log()], Store::default());
    let handles = [rig.partition(1, &logs[0], &store), rig.partition(2, &logs[1], &store)];
    sleep_ms(60_000).await;
    let calls = rig.ledger.calls();
    assert_eq!(calls.len(), 400);
    assert_eq!(rig.ledger.most_at_once(|call| call.event_type == slow), 4);
    assert_eq!(rig.ledger.most_at_once(|_| true), 10, "what the limit leaves free, others use");
    let last = |which: bool| calls.iter().filter(|call| (call.event_type == slow) == which).map(|call| rig.ms(call.started)).max().unwrap();
    assert!((2700..=3500).contains(&last(false)), "200 fast ones in at least six slots: {}", last(false));
    assert!((4900..=5500).contains(&last(true)), "200 slow ones in four: {}", last(true));
    let shares: Vec<_> = [1, 2]
        .map(|number| {
            calls.iter().filter(|call| call.partition == number && rig.ms(call.started) < 3000 && call.event_type == slow).count()
        })
        .into();
    assert!(shares[0].abs_diff(shares[1]) <= 8, "the limit is shared fairly: {shares:?}");
    drop(handles);
}

#[tokio::test(start_paused = true)]
async fn slots_asked_for_in_vain_go_to_somebody_else() {
    let rig = Rig::new(Options { worker_num: 4, ..Options::default() }, after(Duration::from_millis(100), |_, _| Outcome::Done));
    let (logs, store) = ([0, 1, 2].map(|_| Log::of((0..100).map(record))), Store::default());
    let [first, second, third] = [0, 1, 2].map(|number| rig.partition(number as u64, &logs[number], &store));
    sleep_ms(250).await;
    second.set_permission(Permission::Pause);
    drop(third);
    let of_first = || rig.ledger.calls().iter().filter(|call| call.partition == 0).count();
    let before = of_first();
    sleep_ms(1000).await;
    assert!((36..=44).contains(&(of_first() - before)), "four slots, ten rounds: {}", of_first() - before);
    drop((first, second));
}

#[tokio::test(start_paused = true)]
async fn a_paused_partition_keeps_no_slot_of_a_type() {
    let event_types = EventTypes::new(vec![("limited".into(), Some(1))]);
    let options = Options { worker_num: 1, event_types, ..Options::default() };
    let rig = Rig::new(options, after(Duration::from_secs(1), |_, _| Outcome::Done));
    let (busy, limited, store) = (Log::of([record(0)]), Log::of([typed(1, "limited")]), Store::default());
    let first = rig.partition(1, &busy, &store);
    sleep_ms(100).await;
    let second = rig.partition(2, &limited, &store);
    sleep_ms(100).await;
    second.set_permission(Permission::Pause);
    let third = rig.partition(3, &limited, &store);
    sleep_ms(2500).await;
    assert_eq!(rig.ledger.calls().iter().map(|call| call.partition).collect::<Vec<_>>(), [1, 3]);
    drop((first, second, third));
}

#[tokio::test(start_paused = true)]
async fn a_bypass_needs_no_slot_of_the_events_type() {
    let event_types = EventTypes::new(vec![("limited".into(), Some(1))]);
    let options = Options { event_types, on_failure: OnFailure::Bypass, ..Options::default() };
    let script = Box::new(|offset, _| {
        Box::pin(async move { if offset == 0 { retry() } else { std::future::pending().await } }) as std::pin::Pin<Box<_>>
    });
    let (rig, store) = (Rig::new(options, script), Store::default());
    let log = Log::of([typed(0, "limited"), typed(1, "limited")]);
    let handle = rig.partition(1, &log, &store);
    sleep_ms(2000).await;
    assert_eq!(rig.ledger.given_up(), [0]);
    assert_eq!(store.cursor(), 1);
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn one_slot_is_taken_in_turns() {
    let rig = Rig::new(Options { worker_num: 1, ..Options::default() }, after(Duration::from_millis(10), |_, _| Outcome::Done));
    let (logs, store) = ([0, 1, 2].map(|_| Log::of((0..50).map(record))), Store::default());
    let handles = [0, 1, 2].map(|number| rig.partition(number as u64, &logs[number], &store));
    sleep_ms(2000).await;
    let order: Vec<_> = rig.ledger.calls().iter().map(|call| call.partition).collect();
    assert_eq!(order.len(), 150);
    assert!(order[1..100].chunks(3).all(|turn| turn == &order[1..4]), "once all three have started: {order:?}");
    drop(handles);
}

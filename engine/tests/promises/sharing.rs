//! What partitions and event types share.

use std::time::Duration;

use engine::event::Outcome;
use engine::options::{EventTypes, Options};

use crate::rig::{Log, Record, Rig, Store, after, record, sleep_ms};

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
    let rig = Rig::new(Options { worker_num: 1, ..Options::default() }, after(Duration::from_millis(100), |_, _| Outcome::Done));
    let (logs, store) = ([0, 1, 2].map(|_| Log::of((0..20).map(record))), Store::default());
    let [first, second, third] = [0, 1, 2].map(|number| rig.partition(number as u64, &logs[number], &store));
    sleep_ms(250).await;
    second.set_permission(engine::task::Permission::Pause);
    drop(third);
    let before = rig.ledger.calls().iter().filter(|call| call.partition == 0).count();
    sleep_ms(1000).await;
    let after = rig.ledger.calls().iter().filter(|call| call.partition == 0).count();
    assert!(after - before >= 9, "{}", after - before);
    drop((first, second));
}

//! What can be seen from outside.

use std::time::Duration;

use engine::event::Outcome;
use engine::options::{EventTypes, Options};

use crate::rig::{Log, Record, Rig, Store, after, hanging, record, sleep_ms};

#[tokio::test(start_paused = true)]
async fn gauges_tell_what_is_true_at_the_scrape() {
    let rig = Rig::new(Options { worker_num: 2, ..Options::default() }, hanging(|offset| offset == 3));
    let (log, store) = (Log::of((0..10).map(record)), Store::default());
    let handle = rig.partition(7, &log, &store);
    sleep_ms(12_000).await;
    let series = rig.scrape();
    let of = |name: &str| series[&format!(r#"mqgate_{name}{{group="g",topic="t",partition="7"}}"#)];
    assert_eq!(of("cursor_offset"), 3.0);
    assert_eq!(of("done_set_records"), 6.0);
    assert_eq!(of("in_flight_records"), 1.0);
    assert_eq!(of("queued_records"), 0.0);
    assert!((11.9..12.1).contains(&of("oldest_unfinished_seconds")), "grows without any event");
    assert_eq!(of("intake_blocked"), 0.0);
    drop(handle);
    sleep_ms(10).await;
    assert!(rig.scrape().keys().all(|series| !series.contains("partition=")), "the series of a lost partition vanish");
}

#[tokio::test(start_paused = true)]
async fn process_time_is_told_by_listed_event_type_and_the_wait_by_group() {
    let event_types = EventTypes::new(vec![("listed".into(), None)]);
    let options = Options { worker_num: 1, event_types, ..Options::default() };
    let rig = Rig::new(options, after(Duration::from_millis(500), |_, _| Outcome::Done));
    let types = ["listed", "unlisted", "listed", "unheard of"];
    let log = Log::of((0..).zip(types).map(|(offset, event_type)| Record { event_type, ..record(offset) }));
    let handle = rig.partition(1, &log, &Store::default());
    sleep_ms(5000).await;
    let series = rig.scrape();
    assert_eq!(series[r#"mqgate_process_seconds_count{group="g",event_type="listed"}"#], 2.0);
    assert_eq!(series[r#"mqgate_process_seconds_count{group="g",event_type="other"}"#], 2.0);
    assert!((1.0..1.1).contains(&series[r#"mqgate_process_seconds_sum{group="g",event_type="listed"}"#]));
    assert_eq!(series[r#"mqgate_enqueue_wait_seconds_count{group="g"}"#], 4.0);
    let waited = series[r#"mqgate_enqueue_wait_seconds_sum{group="g"}"#];
    assert!((3.0..3.1).contains(&waited), "0, 0.5, 1 and 1.5 seconds: {waited}");
    assert!(series.keys().all(|series| !series.contains("unheard")));
    drop(handle);
}

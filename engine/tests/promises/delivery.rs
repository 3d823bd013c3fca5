//! The plain way of an event.

use std::time::Duration;

use engine::event::Outcome;
use engine::options::Options;

use crate::rig::{Log, Rig, Store, after, record, sleep_ms};

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

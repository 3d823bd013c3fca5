//! Keyed messages at a steady pace, for as long as something is tried out.

use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ledger::Acked;
use crate::producer::Producer;

/// Dropped, it stops; what it had posted is known only to who stopped it.
pub struct Load {
    stop: CancellationToken,
    posting: JoinHandle<Vec<Acked>>,
}

impl Load {
    /// So many messages a second, one after the other, over so many keys; each must be acknowledged.
    pub fn start(producer: Producer, per_second: u32, keys: usize) -> Self {
        let stop = CancellationToken::new();
        let posting = tokio::spawn(post(producer, Duration::from_secs(1) / per_second, keys, stop.clone()));
        Self { stop, posting }
    }

    /// What was acknowledged.
    pub async fn stop(self) -> Vec<Acked> {
        self.stop.cancel();
        self.posting.await.unwrap()
    }
}

async fn post(producer: Producer, every: Duration, keys: usize, stop: CancellationToken) -> Vec<Acked> {
    let mut pace = tokio::time::interval(every);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut acked = Vec::new();
    for n in 0.. {
        if stop.run_until_cancelled(pace.tick()).await.is_none() {
            break;
        }
        let key = format!("k{}", n % keys);
        let body = Bytes::from(format!("{key}.{n}"));
        acked.push(producer.plain(Some(&key), &[], body).await.unwrap_or_else(|refused| panic!("message {n}: {refused:?}")));
    }
    acked
}

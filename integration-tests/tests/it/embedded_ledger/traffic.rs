//! Keyed messages of many sizes from clients that outlive every crash.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use integration_tests::ledger::Acked;
use integration_tests::producer::Producer;
use rand::RngExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::TOPIC;

const CLIENTS: usize = 8;
/// Of each client: together at most 200 messages a second.
const PACE: Duration = Duration::from_millis(40);
const KEYS: f64 = 60.0;

#[derive(Debug, Default)]
struct Counts {
    disk_full: AtomicUsize,
    refused: AtomicUsize,
    unknown: AtomicUsize,
}

pub(super) struct Traffic {
    stop: CancellationToken,
    clients: JoinSet<Vec<(Acked, Instant)>>,
    counts: Arc<Counts>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Sent {
    /// With the time of each acknowledgement.
    pub(super) acked: Vec<(Acked, Instant)>,
    /// Of the refused: because the disk was full.
    pub(super) disk_full: usize,
    /// Certainly not written.
    pub(super) refused: usize,
    /// Perhaps written: 504, or no answer.
    pub(super) unknown: usize,
}

impl Traffic {
    pub(super) fn start(api: SocketAddr) -> Self {
        let (stop, counts) = (CancellationToken::new(), Arc::new(Counts::default()));
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            clients.spawn(post(client, Producer::new(api, TOPIC), stop.clone(), counts.clone()));
        }
        Self { stop, clients, counts }
    }

    pub(super) async fn stop(self) -> Sent {
        self.stop.cancel();
        let acked = self.clients.join_all().await.into_iter().flatten().collect();
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let Counts { disk_full, refused, unknown } = &*self.counts;
        Sent { acked, disk_full: count(disk_full), refused: count(refused), unknown: count(unknown) }
    }
}

/// A few of the keys have most of the messages, and all clients share them.
async fn post(client: usize, producer: Producer, stop: CancellationToken, counts: Arc<Counts>) -> Vec<(Acked, Instant)> {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut acked = Vec::new();
    for message in 0_usize.. {
        if stop.run_until_cancelled(pace.tick()).await.is_none() {
            break;
        }
        let key = format!("k{:.0}", KEYS * rand::rng().random::<f64>().powi(2));
        let size = rand::rng().random_range(1..16_000);
        let body = format!("{client}.{message}:")
            .into_bytes()
            .into_iter()
            .chain((0..size).map(|n: u32| ((n * n) >> 3) as u8))
            .collect::<Vec<u8>>();
        match producer.plain(Some(&key), &[], Bytes::from(body)).await {
            Ok(message) => acked.push((message, Instant::now())),
            Err(refused) => {
                if refused.body.contains("disk_full") {
                    counts.disk_full.fetch_add(1, Ordering::Relaxed);
                }
                let certain = refused.status == Some(503);
                if certain { &counts.refused } else { &counts.unknown }.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    acked
}

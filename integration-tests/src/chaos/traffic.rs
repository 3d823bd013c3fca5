//! Keyed messages, a few of the keys with most of them, through both proxies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::RngExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::world::{TOPICS, World};
use crate::ledger::Acked;
use crate::producer::Producer;

const CLIENTS: usize = 8;
/// Of each client: together at most 160 messages a second.
const PACE: Duration = Duration::from_millis(50);
const KEYS: f64 = 300.0;

pub(super) struct Traffic {
    stop: CancellationToken,
    clients: JoinSet<Vec<(Acked, Instant)>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    acked: AtomicUsize,
    refused: AtomicUsize,
    unknown: AtomicUsize,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Sent {
    /// With the time of each acknowledgement; of each client in the order of its posts.
    pub(super) acked: Vec<(Acked, Instant)>,
    /// Certainly not written, or never sent.
    pub(super) refused: usize,
    /// Perhaps written: 504, or no answer.
    pub(super) unknown: usize,
}

impl Traffic {
    pub(super) fn start(world: &World) -> Self {
        let (stop, counts) = (CancellationToken::new(), Arc::new(Counts::default()));
        let mut clients = JoinSet::new();
        let proxies = world.proxies();
        for number in 0..CLIENTS {
            clients.spawn(post(number, proxies[number % proxies.len()], stop.clone(), counts.clone()));
        }
        Self { stop, clients, counts }
    }

    pub(super) fn acked(&self) -> usize {
        self.counts.acked.load(Ordering::Relaxed)
    }

    pub(super) async fn stop(self) -> Sent {
        self.stop.cancel();
        let acked = self.clients.join_all().await.into_iter().flatten().collect();
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        Sent { acked, refused: count(&self.counts.refused), unknown: count(&self.counts.unknown) }
    }
}

async fn post(number: usize, proxy: std::net::SocketAddr, stop: CancellationToken, counts: Arc<Counts>) -> Vec<(Acked, Instant)> {
    let http = reqwest::Client::builder().timeout(Duration::from_secs(8)).build().unwrap();
    let producers = TOPICS.map(|topic| {
        let mut producer = Producer::new(proxy, topic);
        producer.http = http.clone();
        producer
    });
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut acked = Vec::new();
    for message in 0.. {
        if stop.run_until_cancelled(pace.tick()).await.is_none() {
            break;
        }
        // Half of the messages to orders, a third to events; low keys are the frequent ones.
        let topic = [0, 0, 0, 1, 1, 2][rand::rng().random_range(0..6)];
        let key = format!("k{:.0}", KEYS * rand::rng().random::<f64>().powi(3));
        match producers[topic].plain(Some(&key), &[], Bytes::from(format!("{number}.{message}"))).await {
            Ok(message) => {
                counts.acked.fetch_add(1, Ordering::Relaxed);
                acked.push((message, Instant::now()));
            }
            Err(refused) => {
                let certain = matches!(refused.status, Some(503 | 404));
                if certain { &counts.refused } else { &counts.unknown }.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    acked
}

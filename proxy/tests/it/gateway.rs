//! A running proxy with its log, and a look into both.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use common::config::{EmbeddedQueueConfig, ProxyConfig};
use common::ids::{Epoch, Offset, Partition, Topic};
use common::queue::Queue;
use common::queue::embedded::{EmbeddedQueue, Options};
use common::record::Record;
use common::serve::Drained;
use common::store::Store;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use proxy::Proxy;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Answer, exchange, post};
use crate::gate::Gate;

/// `t1` has one partition, `t6` six; no topic comes into being by itself.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) gate: Arc<Gate>,
    pub(crate) drain: CancellationToken,
    pub(crate) served: JoinHandle<Drained>,
    registry: Registry,
    _folder: TempDir,
}

pub(crate) fn config() -> ProxyConfig {
    ProxyConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        admin: "127.0.0.1:0".parse().unwrap(),
        admin_token: None,
        allow_anonymous: false,
        produce_timeout: Duration::from_secs(5),
        max_message_bytes: 100_000,
        max_in_flight_requests: 10_000,
        max_in_flight_bytes: 64 << 20,
        head_timeout: Duration::from_millis(500),
        body_timeout: Duration::from_millis(1000),
        idle_timeout: Duration::from_millis(1500),
        drain_timeout: Duration::from_secs(5),
    }
}

fn options(folder: &TempDir) -> Options {
    Options::from(&EmbeddedQueueConfig {
        dir: folder.path().to_owned(),
        partitions: 1,
        auto_create_topics: false,
        retention: Duration::from_secs(3600),
        retention_bytes: None,
        max_topics: 100,
    })
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

pub(crate) async fn running() -> Gateway {
    running_with(config()).await
}

pub(crate) async fn running_with(config: ProxyConfig) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    let mut registry = Registry::with_prefix("mqgate");
    let log = EmbeddedQueue::open(Store::open(folder.path()).unwrap(), options(&folder), &mut registry).unwrap();
    for (name, partitions) in [("t1", 1), ("t6", 6), ("a-b", 1)] {
        log.create_topic(&topic(name), partitions).await.unwrap();
    }
    let gate = Arc::new(Gate::before(log));
    let proxy = Proxy::bind(&config, gate.clone(), &mut registry).unwrap();
    let (address, drain) = (proxy.local_addr(), CancellationToken::new());
    let served = tokio::spawn(proxy.run(drain.clone()));
    Gateway { address, gate, drain, served, registry, _folder: folder }
}

impl Gateway {
    pub(crate) async fn post(&self, target: &str, headers: &str, body: &[u8]) -> Answer {
        exchange(self.address, &post(target, headers, body)).await
    }

    pub(crate) async fn end(&self, topic_name: &str, partition: u32) -> u64 {
        self.gate.watermarks(&topic(topic_name), Partition(partition)).await.unwrap().end.0
    }

    pub(crate) async fn records(&self, topic_name: &str, partition: u32) -> Vec<Record> {
        let (topic, partition) = (topic(topic_name), Partition(partition));
        let end = self.gate.watermarks(&topic, partition).await.unwrap().end;
        let (mut records, mut next) = (Vec::new(), Offset(0));
        if end > next {
            let mut reader = Queue::open(&*self.gate, &topic, partition, next, Epoch(1)).await.unwrap();
            while next < end {
                let batch = reader.next(1 << 20).await.unwrap();
                next = batch.next_offset;
                records.extend(batch.records);
            }
        }
        records
    }

    pub(crate) async fn values(&self, topic_name: &str) -> Vec<Vec<u8>> {
        self.records(topic_name, 0).await.into_iter().map(|record| record.payload.value.unwrap().to_vec()).collect()
    }

    pub(crate) fn scrape(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// The sum over the series of that name with all of these labels in them.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let wanted = |line: &&str| line.split(['{', ' ']).next() == Some(name) && labels.iter().all(|label| line.contains(label));
        let scrape = self.scrape();
        let values = scrape.lines().filter(wanted).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
        values.sum()
    }

    /// Until a condition holds; the test's own time limit is 10 s.
    pub(crate) async fn eventually(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        for _ in 0..1000 {
            if holds(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never came true: {what}\n{}", self.scrape());
    }
}

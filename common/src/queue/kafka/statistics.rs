//! librdkafka's statistics, a page of JSON a client every five seconds, made into the few series
//! that say something about a cluster.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use tracing::debug;

use super::metrics::ClientMetrics;

/// With more partitions than this, statistics are megabytes, and none are made.
pub(super) const MAX_PARTITIONS: usize = 2_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statistics {
    Made,
    None,
}

#[derive(Deserialize)]
struct Report<'a> {
    msg_cnt: u64,
    msg_size: u64,
    tx_bytes: u64,
    rx_bytes: u64,
    #[serde(borrow)]
    brokers: HashMap<String, Broker<'a>>,
    topics: HashMap<String, Topic>,
}

#[derive(Deserialize)]
struct Broker<'a> {
    source: &'a str,
    state: &'a str,
    connects: u64,
    txerrs: u64,
    rxerrs: u64,
    req_timeouts: u64,
    rtt: Window,
    throttle: Window,
}

/// Microseconds of round trips, milliseconds of throttling.
#[derive(Deserialize)]
struct Window {
    p99: u64,
    max: u64,
}

#[derive(Deserialize)]
struct Topic {
    partitions: HashMap<i32, Partition>,
}

#[derive(Deserialize)]
struct Partition {
    fetchq_cnt: u64,
    fetchq_size: u64,
}

/// What is counted of one report.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sample {
    held: u64,
    held_bytes: u64,
    up: u64,
    down: u64,
    connects: u64,
    sent_bytes: u64,
    received_bytes: u64,
    request_errors: u64,
    round_trip_us: u64,
    throttle_ms: u64,
    partitions: usize,
}

fn sample(json: &[u8]) -> Result<Sample, serde_json::Error> {
    let report: Report<'_> = serde_json::from_slice(json)?;
    let mut sample = Sample {
        held: report.msg_cnt,
        held_bytes: report.msg_size,
        sent_bytes: report.tx_bytes,
        received_bytes: report.rx_bytes,
        ..Sample::default()
    };
    // The others are the client's own queues, and second connections to the same brokers.
    for broker in report.brokers.values().filter(|broker| matches!(broker.source, "configured" | "learned")) {
        match broker.state {
            "UP" => sample.up += 1,
            // Not needed yet.
            "INIT" => {}
            _ => sample.down += 1,
        }
        sample.connects += broker.connects;
        sample.request_errors += broker.txerrs + broker.rxerrs + broker.req_timeouts;
        sample.round_trip_us = sample.round_trip_us.max(broker.rtt.p99);
        sample.throttle_ms = sample.throttle_ms.max(broker.throttle.max);
    }
    for partition in report.topics.values().flat_map(|topic| topic.partitions.values()) {
        sample.held += partition.fetchq_cnt;
        sample.held_bytes += partition.fetchq_size;
        sample.partitions += 1;
    }
    Ok(sample)
}

/// The part of one client in what all of its kind report.
pub(super) struct Observed {
    metrics: ClientMetrics,
    last: Mutex<Sample>,
}

impl Observed {
    pub(super) fn new(metrics: ClientMetrics) -> Self {
        Self { metrics, last: Mutex::default() }
    }

    pub(super) fn take(&self, json: &[u8]) {
        match sample(json) {
            Ok(sample) => self.count(sample),
            Err(error) => debug!(%error, "statistics of a Kafka client are not what was expected"),
        }
    }

    /// Whether the client knows of more partitions than it should report.
    pub(super) fn is_too_large(&self) -> bool {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).partitions > MAX_PARTITIONS
    }

    fn count(&self, now: Sample) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let metrics = &self.metrics;
        for (gauge, now, last) in [
            (&metrics.held, now.held, last.held),
            (&metrics.held_bytes, now.held_bytes, last.held_bytes),
            (&metrics.up, now.up, last.up),
            (&metrics.down, now.down, last.down),
        ] {
            gauge.inc_by(now.cast_signed() - last.cast_signed());
        }
        // Brokers that a client forgets take their counts with them.
        for (counter, now, last) in [
            (&metrics.connects, now.connects, last.connects),
            (&metrics.sent_bytes, now.sent_bytes, last.sent_bytes),
            (&metrics.received_bytes, now.received_bytes, last.received_bytes),
            (&metrics.request_errors, now.request_errors, last.request_errors),
        ] {
            counter.inc_by(now.saturating_sub(last));
        }
        metrics.round_trip_seconds.set(std::time::Duration::from_micros(now.round_trip_us).as_secs_f64());
        metrics.throttle_seconds.set(std::time::Duration::from_millis(now.throttle_ms).as_secs_f64());
        *last = now;
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        let last = self.last.get_mut().unwrap_or_else(PoisonError::into_inner);
        let gone = [
            (&self.metrics.held, last.held),
            (&self.metrics.held_bytes, last.held_bytes),
            (&self.metrics.up, last.up),
            (&self.metrics.down, last.down),
        ];
        for (gauge, last) in gone {
            gauge.dec_by(last.cast_signed());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use prometheus_client::encoding::prometheus_text;
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::super::metrics::{KafkaMetrics, Role};
    use super::*;

    fn report(waiting: u64, sent: u64, state: &str) -> Vec<u8> {
        let window = json!({"min": 0, "max": 40, "avg": 7, "p99": 2_000});
        let broker = |source: &str, state: &str| json!({"name": "a:1/1", "source": source, "state": state, "connects": 3, "txerrs": 1, "rxerrs": 0, "req_timeouts": 1, "rtt": window, "throttle": window});
        let partition = json!({"partition": 0, "fetchq_cnt": 2, "fetchq_size": 100});
        let report = json!({"name": "mqgate#producer-1", "msg_cnt": waiting, "msg_size": waiting * 10, "tx_bytes": sent, "rx_bytes": 5,
            "brokers": {"a:1/1": broker("learned", state), "b:2/bootstrap": broker("configured", "INIT"), "GroupCoordinator": broker("logical", "UP")},
            "topics": {"t": {"topic": "t", "partitions": {"0": partition, "-1": partition}}}});
        serde_json::to_vec(&report).unwrap()
    }

    #[test]
    fn clients_of_a_kind_are_summed_and_take_their_part_with_them() {
        let mut registry = Registry::with_prefix("mqgate");
        let cluster = KafkaMetrics::register(&mut registry).of_cluster("a:1".into());
        let text = || {
            let mut text = String::new();
            prometheus_text::encode(&mut text, &registry).unwrap();
            text
        };
        let one = Observed::new(cluster.of_client(Role::Producer));
        let other = Observed::new(cluster.of_client(Role::Producer));
        one.take(&report(7, 100, "UP"));
        one.take(&report(5, 150, "UP"));
        other.take(&report(1, 10, "CONNECT"));
        other.take(b"{}");
        let both = text();
        for series in [
            "mqgate_kafka_waiting_messages{cluster=\"a:1\"} 14\n",
            "mqgate_kafka_sent_bytes_total{cluster=\"a:1\",client=\"producer\"} 160\n",
            "mqgate_kafka_connections{cluster=\"a:1\",client=\"producer\",state=\"up\"} 1\n",
            "mqgate_kafka_connections{cluster=\"a:1\",client=\"producer\",state=\"down\"} 1\n",
            "mqgate_kafka_request_errors_total{cluster=\"a:1\",client=\"producer\"} 8\n",
            "mqgate_kafka_round_trip_seconds{cluster=\"a:1\",client=\"producer\"} 0.002\n",
        ] {
            assert!(both.contains(series), "{series}{both}");
        }
        drop(one);
        assert!(text().contains("mqgate_kafka_waiting_messages{cluster=\"a:1\"} 5\n"));
        drop((other, cluster));
        assert!(!text().contains("a:1"), "{}", text());
    }

    #[test]
    fn too_many_partitions_are_noticed() {
        let mut registry = Registry::default();
        let client = Observed::new(KafkaMetrics::register(&mut registry).of_cluster("a:1".into()).of_client(Role::Reader));
        client.take(&report(0, 0, "UP"));
        assert!(!client.is_too_large());
        client.count(Sample { partitions: MAX_PARTITIONS + 1, ..Sample::default() });
        assert!(client.is_too_large());
    }
}

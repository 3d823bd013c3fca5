//! What the embedded log counts.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Why records left the log before anybody asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Cause {
    Age,
    Size,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DroppedLabels {
    pub(super) cause: Cause,
}

pub(super) struct Metrics {
    pub(super) synced_records: Counter,
    pub(super) sync_seconds: Histogram,
    pub(super) bytes: Gauge,
    pub(super) dropped_records: Family<DroppedLabels, Counter>,
    pub(super) writable: Gauge,
}

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            synced_records: Counter::default(),
            sync_seconds: Histogram::new([0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 1.0, 5.0]),
            bytes: Gauge::default(),
            dropped_records: Family::default(),
            writable: Gauge::default(),
        };
        metrics.writable.set(1);
        let Self { synced_records, sync_seconds, bytes, dropped_records, writable } = &metrics;
        registry.register("log_synced_records", "Records written to the embedded log and synced", synced_records.clone());
        registry.register("log_sync_seconds", "One commit of the embedded log, its sync included", sync_seconds.clone());
        registry.register("log_bytes", "Records kept in the embedded log, in bytes", bytes.clone());
        registry.register("log_dropped_records", "Records dropped from the embedded log by retention", dropped_records.clone());
        registry.register("log_writable", "0 while the disk is full, or after a failed write until the restart", writable.clone());
        metrics
    }
}

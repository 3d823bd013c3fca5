//! Gauges of the partitions that run now, read at the moment of a scrape.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use slab::Slab;
use tokio::time::Instant;

use super::labels::Labels;

/// Every running partition.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<Slab<Arc<PartitionGauges>>>);

/// Written by the partition loop whenever it comes to rest; plain stores, no locks.
#[derive(Debug)]
pub(crate) struct PartitionGauges {
    labels: Labels<3>,
    started: Instant,
    pub(crate) cursor: AtomicU64,
    pub(crate) queued: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) done_set: AtomicU64,
    pub(crate) pending_retries: AtomicU64,
    pub(crate) blocked: AtomicU64,
    pub(crate) commit_interval_micros: AtomicU64,
    /// Microseconds from `started` to the admission of the oldest unfinished event, plus 1; 0 for none.
    oldest: AtomicU64,
}

impl PartitionGauges {
    pub(crate) fn new(group: &Arc<str>, topic: &Arc<str>, partition: u32) -> Self {
        let partition = partition.to_string().into();
        Self {
            labels: Labels([("group", Arc::clone(group)), ("topic", Arc::clone(topic)), ("partition", partition)]),
            started: Instant::now(),
            cursor: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            done_set: AtomicU64::new(0),
            pending_retries: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            commit_interval_micros: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
        }
    }

    pub(crate) fn set_oldest(&self, admitted: Option<Instant>) {
        let micros = |at: Instant| u64::try_from(at.saturating_duration_since(self.started).as_micros()).unwrap_or(u64::MAX - 1);
        self.oldest.store(admitted.map_or(0, |at| micros(at) + 1), Relaxed);
    }

    fn oldest_seconds(&self) -> f64 {
        match self.oldest.load(Relaxed) {
            0 => 0.0,
            since => (self.started.elapsed().as_secs_f64() - (since - 1) as f64 / 1e6).max(0.0),
        }
    }

    fn group(&self) -> Labels<1> {
        Labels([self.labels.0[0].clone()])
    }
}

impl Live {
    pub(crate) fn register(self: &Arc<Self>, gauges: PartitionGauges) -> Registered {
        let gauges = Arc::new(gauges);
        let key = self.lock().insert(Arc::clone(&gauges));
        Registered { gauges, key, live: Arc::clone(self) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slab<Arc<PartitionGauges>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a partition's series in the registry until it is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    gauges: Arc<PartitionGauges>,
    key: usize,
    live: Arc<Live>,
}

impl Deref for Registered {
    type Target = PartitionGauges;

    fn deref(&self) -> &PartitionGauges {
        &self.gauges
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.live.lock().remove(self.key);
    }
}

/// Name, help, value.
type Gauge = (&'static str, &'static str, fn(&PartitionGauges) -> u64);

const BY_PARTITION: [Gauge; 5] = [
    ("cursor_offset", "The next offset to process; everything below is finished.", |of| of.cursor.load(Relaxed)),
    ("queued_records", "Unfinished events that are not in flight.", |of| of.queued.load(Relaxed)),
    ("in_flight_records", "Attempts in flight.", |of| of.in_flight.load(Relaxed)),
    ("done_set_records", "Events done above the cursor.", |of| of.done_set.load(Relaxed)),
    ("intake_blocked", "1 while a bound keeps the partition from reading; what stands at cursor_offset blocks it.", |of| {
        of.blocked.load(Relaxed)
    }),
];

impl Collector for Live {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let partitions: Vec<_> = self.lock().iter().map(|(_, gauges)| Arc::clone(gauges)).collect();
        if partitions.is_empty() {
            return Ok(());
        }
        for (name, help, read) in BY_PARTITION {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            partitions.iter().try_for_each(|of| family.encode_family(&of.labels)?.encode_gauge(&read(of)))?;
        }
        let help = "Age of the oldest unfinished event since its admission; 0 if there is none.";
        let mut family = encoder.encode_descriptor("oldest_unfinished_seconds", help, None, MetricType::Gauge)?;
        partitions.iter().try_for_each(|of| family.encode_family(&of.labels)?.encode_gauge(&of.oldest_seconds()))?;
        encode_groups(&partitions, &mut encoder)
    }
}

#[derive(Default)]
struct Group {
    pending_retries: u64,
    commit_interval_micros: u64,
}

fn encode_groups(partitions: &[Arc<PartitionGauges>], encoder: &mut DescriptorEncoder) -> fmt::Result {
    let mut groups: HashMap<Labels<1>, Group> = HashMap::new();
    for of in partitions {
        let group = groups.entry(of.group()).or_default();
        group.pending_retries += of.pending_retries.load(Relaxed);
        group.commit_interval_micros = group.commit_interval_micros.max(of.commit_interval_micros.load(Relaxed));
    }
    let mut family = encoder.encode_descriptor("pending_retries", "Unfinished events with a failed attempt.", None, MetricType::Gauge)?;
    groups.iter().try_for_each(|(labels, group)| family.encode_family(labels)?.encode_gauge(&group.pending_retries))?;
    let help = "Time between two writes of a moving cursor: as configured, or longer where a write takes longer.";
    let mut family = encoder.encode_descriptor("commit_interval_seconds", help, None, MetricType::Gauge)?;
    let seconds = |group: &Group| group.commit_interval_micros as f64 / 1e6;
    groups.iter().try_for_each(|(labels, group)| family.encode_family(labels)?.encode_gauge(&seconds(group)))
}

//! What every request shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use common::config::ProxyConfig;
use common::queue::Queue;
use prometheus_client::registry::Registry;

use crate::admission::Admission;
use crate::message_id::MessageIds;
use crate::metrics::Metrics;

pub(crate) struct Context {
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) ids: MessageIds,
    pub(crate) produce_timeout: Duration,
    /// For a whole body; in a batch, for a line.
    pub(crate) body_timeout: Duration,
    /// Key, value and headers of one message together.
    pub(crate) max_message_bytes: usize,
    shutting_down: AtomicBool,
}

impl Context {
    pub(crate) fn new(config: &ProxyConfig, queue: Arc<dyn Queue>, registry: &mut Registry) -> Self {
        let metrics = Arc::new(Metrics::register(registry));
        let (requests, bytes) = (config.max_in_flight_requests, config.max_in_flight_bytes);
        Self {
            queue,
            admission: Arc::new(Admission::new(requests, bytes, metrics.in_flight.clone())),
            metrics,
            ids: MessageIds::new(),
            produce_timeout: config.produce_timeout,
            body_timeout: config.body_timeout,
            max_message_bytes: config.max_message_bytes,
            shutting_down: AtomicBool::new(false),
        }
    }

    /// From now on new requests are refused.
    pub(crate) fn shut(&self) {
        self.shutting_down.store(true, Relaxed);
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Relaxed)
    }
}

//! HTTP delivery: one request for one record, and what its answer means (`contract.md` §2).

use std::sync::Arc;

use common::config::GroupConfig;
use common::coordinator::Lease;
use common::queue::Queue;
use engine::event::{Attempt, Event, GivenUp, Outcome};
use engine::ports::Processor;

use crate::decode::Delivered;

mod metrics;
mod reason;
mod tls;

pub use self::metrics::DeliveryMetrics;
pub use self::tls::{Tls, TlsError};

/// Delivers the records of one group to its callback URL, over connections of its own.
pub struct Delivery {
    lease: Lease,
}

impl Delivery {
    /// Must be called inside a tokio runtime. An error only for an https URL whose trusted
    /// certificates cannot be read.
    pub fn new(group: &GroupConfig, queue: Arc<dyn Queue>, lease: Lease, metrics: &DeliveryMetrics, tls: &Tls) -> Result<Self, TlsError> {
        let _ = (group, queue, metrics.of_group(group.group.as_str()), tls);
        Ok(Self { lease })
    }
}

impl Processor<Delivered> for Delivery {
    async fn process(&self, event: &Event<Delivered>, attempt: Attempt) -> Outcome {
        let _ = (event, attempt, self.lease.holds());
        Outcome::Cut
    }

    async fn bypass(&self, event: &Event<Delivered>, given_up: &GivenUp) -> Result<(), String> {
        let _ = (event, given_up);
        Err("not yet".into())
    }
}

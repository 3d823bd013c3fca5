//! One client of librdkafka, and what is assigned to it.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::Consumer as _;
use rdkafka::consumer::base_consumer::PartitionQueue;

use super::{Pace, Place};
use crate::ids::{Offset, Topic};
use crate::queue::kafka::cluster::Consumer;
use crate::queue::kafka::context::Said;
use crate::queue::kafka::line::Line;
use crate::queue::kafka::metrics::Role;
use crate::queue::kafka::native;
use crate::queue::kafka::options::OptionsError;
use crate::queue::kafka::settings::reader as settings;
use crate::queue::kafka::site::Site;
use crate::queue::kafka::statistics::{MAX_PARTITIONS, Statistics};

/// None is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(pub(super) u64);

pub(super) struct Client {
    pub(super) number: Number,
    pub(super) pace: Pace,
    // In this order they are dropped: queues go before their client.
    pub(super) taken: HashMap<Place, Taken>,
    pub(super) consumer: Arc<Consumer>,
    statistics: Statistics,
    /// Whose partitions are in its statistics.
    topics: HashSet<Topic>,
    partitions: usize,
    /// The brokers that it was told.
    told: String,
}

/// A partition of it, while somebody reads that.
pub(super) struct Taken {
    pub(super) line: Arc<Line>,
    /// Looks since something was taken.
    pub(super) still_looks: u32,
    /// Of them, those since when something lies there.
    pub(super) unread_looks: u32,
    /// At the last look.
    position: Offset,
    /// At the last survey.
    pub(super) waited_at: Option<Offset>,
    /// For its call-back.
    _split: PartitionQueue<Said>,
}

impl Taken {
    pub(super) fn new(line: Arc<Line>, split: PartitionQueue<Said>) -> Self {
        let position = line.position();
        Self { line, still_looks: 0, unread_looks: 0, position, waited_at: None, _split: split }
    }

    pub(super) fn look(&mut self) {
        let before = std::mem::replace(&mut self.position, self.line.position());
        let still = self.position == before;
        self.still_looks = if still { self.still_looks + 1 } else { 0 };
        self.unread_looks = if still && self.line.is_unread() { self.unread_looks + 1 } else { 0 };
    }
}

impl Client {
    pub(super) fn start(number: Number, pace: Pace, site: &Arc<Site>, statistics: Statistics) -> Result<Self, OptionsError> {
        let told = site.brokers.list();
        let said = Said::of(site, Role::Reader, statistics);
        let consumer = Consumer::from_config_and_context(&settings(&site.options, &told, statistics, pace)?, said);
        let consumer = Arc::new(consumer.map_err(|error| OptionsError::Client(error.to_string()))?);
        Ok(Self { number, pace, taken: HashMap::default(), consumer, statistics, topics: HashSet::default(), partitions: 0, told })
    }

    /// Whether its statistics stay within bounds with this topic, too.
    pub(super) fn has_room(&self, topic: &Topic, partitions: u32) -> bool {
        let partitions = usize::try_from(partitions).unwrap_or(usize::MAX);
        match self.statistics {
            Statistics::None => true,
            Statistics::Made => self.topics.contains(topic) || self.partitions.saturating_add(partitions) <= MAX_PARTITIONS,
        }
    }

    pub(super) fn take(&mut self, place: &Place, partitions: u32, taken: Taken) {
        if let Statistics::Made = self.statistics
            && self.topics.insert(place.0.clone())
        {
            self.partitions = self.partitions.saturating_add(usize::try_from(partitions).unwrap_or(usize::MAX));
        }
        self.taken.insert(place.clone(), taken);
    }

    /// Idempotent.
    pub(super) fn introduce(&mut self, brokers: &str) {
        if self.told != brokers {
            native::add_brokers(self.consumer.client(), brokers);
            brokers.clone_into(&mut self.told);
        }
    }
}

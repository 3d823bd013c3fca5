//! Which cluster a group reads, and which ensemble keeps its cursors.

use super::backends::{Backends, Cursors};
use crate::config::Brokers;
use crate::config::fault::Report;
use crate::config::file::{File, Group};
use crate::config::leaf::server::{assembled, sorted};
use crate::config::role::Role;
use crate::config::section::Given;
use crate::coordinator::zookeeper::Ensemble;

const DEFAULT_SERVER: &str = "127.0.0.1:2181";

/// What a group takes over from the file.
pub(super) enum Servers {
    /// Nothing: the embedded queue has none.
    None,
    OfKafka(OfKafka),
}

pub(super) struct OfKafka {
    hosts: Vec<String>,
    chroot: String,
    listed: Option<Vec<String>>,
    /// `--brokers` also stands for what a group would find registered.
    by_flag: bool,
    cursors: Cursors,
}

/// A list of servers as it is read.
type Listed = Given<Option<Vec<Given<Vec<String>>>>>;

/// `None`: it is not there, or all of it was refused.
fn collected(field: &Listed) -> Option<Vec<String>> {
    let entries = field.value.as_ref()?.as_ref()?;
    let hosts: Vec<String> = entries.iter().filter_map(|entry| entry.value.clone()).flatten().collect();
    (!hosts.is_empty()).then(|| sorted(&hosts))
}

impl Servers {
    pub(super) fn new(role: Role, backends: Backends, file: &File, report: &mut Report<'_>) -> Self {
        let Backends::Kafka(cursors) = backends else { return Self::None };
        let brokers = file.queue.value.as_ref().and_then(|queue| queue.kafka.value.as_ref()).map(|kafka| &kafka.brokers);
        let is_known = file.names_servers() || brokers.is_some_and(Given::is_set) || cursors == Cursors::ZooKeeper;
        if !is_known && needs_the_shared_one(role, file) {
            let message = "where is Kafka? Write \"queue\": { \"kafka\": { \"brokers\": [\"HOST:9092\"] } } (or --brokers), or where its brokers \
                           are registered, \"zookeepers\": [\"HOST:2181\"] (or --zookeepers)";
            report.fault_at(&file.queue.spot, message);
        }
        Self::OfKafka(OfKafka {
            hosts: collected(&file.zookeepers).unwrap_or_else(|| vec![DEFAULT_SERVER.to_owned()]),
            chroot: file.zk_path.value.clone().flatten().unwrap_or_default(),
            listed: brokers.and_then(collected),
            by_flag: brokers.is_some_and(|brokers| brokers.spot.is_flag()),
            cursors,
        })
    }

    /// Of the cluster that is written to. `None`: the embedded queue.
    pub(super) fn brokers(&self) -> Option<Brokers> {
        match self {
            Self::None => None,
            Self::OfKafka(kafka) => Some(kafka.brokers()),
        }
    }

    /// Where cursors are kept. `None`: in the embedded coordinator.
    pub(super) fn ensemble(&self) -> Option<Ensemble> {
        match self {
            Self::None | Self::OfKafka(OfKafka { cursors: Cursors::Embedded, .. }) => None,
            Self::OfKafka(kafka) => Some(assembled(&kafka.hosts, &kafka.chroot)),
        }
    }

    /// The same two of a group.
    pub(super) fn of_group(&self, raw: &Group, report: &mut Report<'_>) -> (Option<Brokers>, Option<Ensemble>) {
        match self {
            Self::None => (None, None),
            Self::OfKafka(kafka) => {
                let (brokers, ensemble) = kafka.of_group(raw, report);
                (Some(brokers), (kafka.cursors == Cursors::ZooKeeper).then_some(ensemble))
            }
        }
    }
}

impl OfKafka {
    fn brokers(&self) -> Brokers {
        match &self.listed {
            Some(brokers) => Brokers::Listed(brokers.clone()),
            None => Brokers::Registered(assembled(&self.hosts, &self.chroot)),
        }
    }

    fn of_group(&self, raw: &Group, report: &mut Report<'_>) -> (Brokers, Ensemble) {
        let hosts = collected(&raw.zookeepers).unwrap_or_else(|| self.hosts.clone());
        let chroot = raw.zk_path.value.as_ref().and_then(Option::as_ref).unwrap_or(&self.chroot);
        let ensemble = assembled(&hosts, chroot);
        let brokers = match collected(&raw.brokers) {
            Some(brokers) => Brokers::Listed(brokers),
            None if raw.names_ensemble() && !self.by_flag => Brokers::Registered(ensemble.clone()),
            None => self.brokers(),
        };
        self.warn(raw, &brokers, report);
        (brokers, ensemble)
    }

    /// Of servers that are named, but for less than one may think.
    fn warn(&self, raw: &Group, brokers: &Brokers, report: &mut Report<'_>) {
        if !raw.names_ensemble() {
            return;
        }
        let spot = if raw.zookeepers.is_set() { &raw.zookeepers.spot } else { &raw.zk_path.spot };
        match (self.cursors, brokers) {
            (Cursors::Embedded, Brokers::Registered(_)) => {
                report.warning_at(spot, "only says where Kafka's brokers are found: cursors are kept in `coordinator.embedded`");
            }
            (Cursors::Embedded, Brokers::Listed(_)) => {
                report.warning_at(spot, "has no effect: cursors are kept in `coordinator.embedded`, and the brokers are listed");
            }
            (Cursors::ZooKeeper, Brokers::Listed(_)) if !raw.brokers.is_set() => {
                report.warning_at(spot, "only says where cursors are kept: the brokers are those of --brokers");
            }
            (Cursors::ZooKeeper, _) => {}
        }
    }
}

/// Whether anybody would look for Kafka where the file says, and no group.
fn needs_the_shared_one(role: Role, file: &File) -> bool {
    let mut groups = file.consumer_groups.value.iter().flatten().filter_map(|group| group.value.as_ref());
    role != Role::Pusher || groups.any(|group| !group.names_servers())
}

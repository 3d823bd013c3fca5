//! Where messages are kept, and where cursors are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::Secret;
use crate::coordinator::zookeeper::{AclMode, Ensemble};
use crate::queue::kafka::{Compression, Partitioner};

#[derive(Clone, Debug, PartialEq)]
pub enum QueueConfig {
    Embedded(EmbeddedQueueConfig),
    Kafka(KafkaQueueConfig),
}

#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddedQueueConfig {
    pub dir: PathBuf,
    /// Of a topic that comes into being with its first message.
    pub partitions: u32,
    pub auto_create_topics: bool,
    pub retention: Duration,
    /// `None`: no bound but the disk.
    pub retention_bytes: Option<u64>,
    pub max_topics: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KafkaQueueConfig {
    /// The cluster that a proxy writes to, and that groups read from which name no other.
    pub brokers: Brokers,
    /// For every cluster.
    pub properties: Properties,
    pub compression: Compression,
    pub partitioner: Partitioner,
    pub auto_create_topics: bool,
}

/// How the brokers of a cluster are found. Two that are equal are one cluster: hosts are sorted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Brokers {
    /// `host:port` each; never empty.
    Listed(Vec<String>),
    /// Those that are registered at `<chroot>/brokers/ids`.
    Registered(Ensemble),
}

impl fmt::Display for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed(brokers) => f.write_str(&brokers.join(",")),
            Self::Registered(ensemble) => write!(f, "registered in {ensemble}"),
        }
    }
}

/// Settings of the Kafka client, each of which it takes. Some of them are secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties {
    all: BTreeMap<String, String>,
    hidden: BTreeSet<String>,
}

impl Properties {
    /// All of them as they are, for the client; never for a log.
    pub fn expose(&self) -> &BTreeMap<String, String> {
        &self.all
    }

    /// Name and value; `None` for a value that is never shown.
    pub fn shown(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.all.iter().map(|(name, value)| (name.as_str(), (!self.hidden.contains(name)).then_some(value.as_str())))
    }

    pub(super) fn insert(&mut self, name: String, value: String) {
        self.all.insert(name, value);
    }

    pub(super) fn insert_hidden(&mut self, name: String, value: String) {
        self.hidden.insert(name.clone());
        self.insert(name, value);
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown().map(|(name, value)| (name, value.unwrap_or("***")))).finish()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorConfig {
    /// For one pusher.
    Embedded {
        dir: PathBuf,
    },
    ZooKeeper(ZooKeeperConfig),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ZooKeeperConfig {
    /// Of those groups that name no other.
    pub ensemble: Ensemble,
    /// `user:password`, for every ensemble.
    pub digest: Option<Secret>,
    pub acl: AclMode,
}

//! The gateway to be measured, with what it stands on.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::ValueEnum;
use integration_tests::cluster::{Cluster, fresh};
use integration_tests::gateway::{Gateway, Setup};
use integration_tests::kafka::{self, Jvm, Kafka, Version};
use integration_tests::zookeeper::ZooKeeper;
use serde_json::{Value, json};

use crate::load::{Dialect, Target};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Backend {
    /// One process, the embedded log.
    Embedded,
    /// Kafka 4.1.1, and cursors in ZooKeeper.
    Kafka,
}

impl Backend {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Kafka => "Kafka",
        }
    }
}

/// Started when first needed, and kept for the whole run.
pub(crate) enum Servers {
    None,
    Kafka(Cluster, #[expect(dead_code, reason = "dropped, it is killed")] ZooKeeper),
}

impl Servers {
    pub(crate) async fn start(backend: Backend, properties: &[(String, String)]) -> Self {
        if backend == Backend::Embedded {
            return Self::None;
        }
        let setup = kafka::Setup { jvm: Jvm::Fast, ..kafka::Setup::default() };
        let (broker, zookeeper) = (Kafka::start_with(Version::Four, setup).await, ZooKeeper::start().await);
        let cluster = Cluster::of(Arc::new(broker), zookeeper.addr(0)).with_properties(properties);
        Self::Kafka(cluster, zookeeper)
    }

    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::None => None,
            Self::Kafka(cluster, _) => Some(cluster),
        }
    }
}

/// Kafka makes two index files with the first entry for each partition, by default with its fifth message of 1 KiB. Of a
/// thousand partitions that is seconds of work, once: not what is measured here.
const SETTINGS: &[(&str, &str)] = &[("index.interval.bytes", "1048576")];

/// A gateway that takes messages in, and with `push` hands them on.
pub(crate) struct Stage<'a> {
    servers: &'a Servers,
    intake: Gateway,
    pusher: Option<Gateway>,
    pub(crate) target: Arc<Target>,
}

impl<'a> Stage<'a> {
    /// With one topic of so many partitions.
    pub(crate) async fn new(servers: &'a Servers, partitions: u32) -> anyhow::Result<Self> {
        let (intake, topic) = match servers.cluster() {
            None => {
                let (gateway, topic) = (Setup::default().start().await, fresh("bench"));
                gateway.create_topic(&topic, partitions).await;
                (gateway, topic)
            }
            Some(cluster) => {
                let topic = fresh("bench");
                cluster.kafka.create_topic(&topic, i32::try_from(partitions)?, SETTINGS).await;
                (cluster.proxy().start().await, topic)
            }
        };
        let target = Arc::new(Target { server: intake.api, topic, dialect: Dialect::Ours });
        Ok(Self { servers, intake, pusher: None, target })
    }

    /// Begins to push with these groups. What took messages in goes on to do so.
    pub(crate) async fn push(&mut self, groups: Vec<Value>) {
        match self.servers.cluster() {
            None => {
                let ended = self.intake.terminate(std::time::Duration::from_secs(20)).await;
                assert!(ended.success(), "{}", self.intake.log());
                self.intake.configure(|setup| setup.groups = groups);
                self.intake.restart().await;
            }
            Some(cluster) => self.pusher = Some(cluster.pusher("bench", groups).start().await),
        }
    }

    pub(crate) fn intake_pid(&self) -> i32 {
        self.intake.pid().as_raw_nonzero().get()
    }

    /// Who pushes.
    pub(crate) fn pusher(&self) -> &Gateway {
        self.pusher.as_ref().unwrap_or(&self.intake)
    }

    pub(crate) fn pusher_mut(&mut self) -> &mut Gateway {
        self.pusher.as_mut().unwrap_or(&mut self.intake)
    }

    pub(crate) fn pusher_pid(&self) -> i32 {
        self.pusher().pid().as_raw_nonzero().get()
    }

    /// How many records were ever written to the topic.
    pub(crate) async fn written(&self) -> u64 {
        match self.servers.cluster() {
            None => self.intake.written(&self.target.topic).await,
            Some(cluster) => cluster.ends(&self.target.topic).await.values().sum(),
        }
    }

    /// A group that pushes the topic from its beginning.
    pub(crate) fn group(&self, name: &str, url: &str, more: &BTreeMap<&str, Value>) -> Value {
        integration_tests::gateway::group(name, &self.target.topic, url, &json!(more))
    }
}

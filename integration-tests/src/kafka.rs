//! A real Kafka broker that can be killed, stopped, frozen and started again: 4.1.1 by itself, or
//! 3.9.2 with a `ZooKeeper` server beside it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::OwnedMessage;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use rustix::process::Signal;
use tempfile::TempDir;

use self::security::Security;
use crate::java::{JavaProcess, class_path};
use crate::relay::Relay;
use crate::zookeeper::ZooKeeper;
use crate::{ports, wait};

mod configuration;
mod program;
pub mod security;
pub mod tools;
mod topics;
pub mod trio;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 4.1.1, which keeps its own metadata.
    Four,
    /// 3.9.2, with its metadata in `ZooKeeper`.
    ThreeWithZooKeeper,
}

/// How the broker's virtual machine runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Jvm {
    /// Soon there, with little memory.
    #[default]
    Small,
    /// As fast as it gets, for measurements.
    Fast,
}

impl Jvm {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Small => &["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
            Self::Fast => &["-Xms1g", "-Xmx2g", "-XX:+UseG1GC"],
        }
    }
}

/// How a broker differs from the usual.
#[derive(Default)]
pub struct Setup {
    /// It has a second address, which leads through a relay.
    pub relayed: bool,
    /// It has a second address, where it asks who one is. Of 4.1.1 only.
    pub security: Option<Security>,
    /// Further lines of its configuration.
    pub lines: &'static str,
    pub jvm: Jvm,
}

/// Dropped, it is killed, and what it stored is gone.
pub struct Kafka {
    process: Option<JavaProcess>,
    /// Of a second broker, which the first one leads.
    second: Option<JavaProcess>,
    version: Version,
    addr: SocketAddr,
    controller: SocketAddr,
    relayed: Option<Relayed>,
    security: Option<Security>,
    lines: &'static str,
    jvm: Jvm,
    zookeeper: Option<ZooKeeper>,
    dir: TempDir,
}

/// Where the broker listens for the relay, and the relay.
struct Relayed {
    addr: SocketAddr,
    relay: Relay,
}

impl Kafka {
    pub async fn start(version: Version) -> Self {
        Self::start_with(version, Setup::default()).await
    }

    pub async fn start_with(version: Version, setup: Setup) -> Self {
        let zookeeper = match version {
            Version::Four => None,
            Version::ThreeWithZooKeeper => Some(ZooKeeper::start().await),
        };
        let relayed = if setup.relayed {
            let addr = ports::free();
            Some(Relayed { addr, relay: Relay::start(addr).await })
        } else {
            None
        };
        let mut kafka = Self {
            process: None,
            second: None,
            version,
            addr: ports::free(),
            controller: ports::free(),
            relayed,
            security: setup.security,
            lines: setup.lines,
            jvm: setup.jvm,
            zookeeper,
            dir: tempfile::tempdir().unwrap(),
        };
        kafka.configure();
        if version == Version::Four {
            kafka.format(&kafka.properties());
        }
        kafka.restart().await;
        kafka
    }

    fn configure(&self) {
        std::fs::write(self.properties(), self.configuration()).unwrap();
    }

    /// Starts it again, stopped or killed, at another address.
    pub async fn restart_elsewhere(&mut self) {
        self.kill();
        self.addr = ports::free();
        self.configure();
        self.restart().await;
    }

    /// One for all tests that run at a time and break nothing; gone with the last of them.
    pub async fn shared(version: Version) -> Arc<Self> {
        static SHARED: [tokio::sync::Mutex<Weak<Kafka>>; 2] =
            [tokio::sync::Mutex::const_new(Weak::new()), tokio::sync::Mutex::const_new(Weak::new())];
        let mut shared = SHARED[usize::from(version == Version::Four)].lock().await;
        if let Some(kafka) = shared.upgrade() {
            return kafka;
        }
        let kafka = Arc::new(Self::start(version).await);
        *shared = Arc::downgrade(&kafka);
        kafka
    }

    /// `host:port`
    pub fn brokers(&self) -> String {
        self.addr.to_string()
    }

    /// The first record of a topic with one partition, which must be there or come within that time.
    pub async fn first_record(&self, topic: &str, within: Duration) -> OwnedMessage {
        let (mut config, topic) = (self.client_config(), topic.to_owned());
        let read = move || {
            let consumer: BaseConsumer = config.set("group.id", "reads-letters").create().unwrap();
            let mut at = TopicPartitionList::new();
            at.add_partition_offset(&topic, 0, Offset::Beginning).unwrap();
            consumer.assign(&at).unwrap();
            consumer.poll(within).expect("a record").unwrap().detach()
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }

    /// `host:port` of the relay before it.
    pub fn relayed_brokers(&self) -> String {
        self.relay().addr().to_string()
    }

    pub fn relay(&self) -> &Relay {
        &self.relayed.as_ref().expect("it was started with a relay").relay
    }

    /// Where it asks who one is.
    pub fn security(&self) -> &Security {
        self.security.as_ref().expect("it was started with security")
    }

    /// Where it is registered.
    pub fn zookeeper(&self) -> &ZooKeeper {
        self.zookeeper.as_ref().expect("this version needs one")
    }

    pub fn zookeeper_mut(&mut self) -> &mut ZooKeeper {
        self.zookeeper.as_mut().expect("this version needs one")
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// What it says.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("kafka.log")).unwrap_or_default()
    }

    /// SIGTERM, and the end that follows.
    pub async fn stop(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.signal(Signal::TERM);
        while process.runs() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stands still, with its connections open, until [`Self::thaw`].
    pub fn freeze(&self) {
        self.process.as_ref().expect("it runs").freeze();
    }

    pub fn thaw(&self) {
        self.process.as_ref().expect("it runs").signal(Signal::CONT);
    }

    /// Starts it on what it stored, and waits until it serves.
    pub async fn restart(&mut self) {
        self.kill();
        let client = self.client_config();
        // After a kill, a broker finds its own node in ZooKeeper until its former session is over, and gives up.
        for _ in 0..5 {
            let process = self.process.insert(self.spawn(&self.properties(), "kafka.log"));
            if serves(1, &client, process).await {
                return;
            }
        }
        panic!("Kafka has ended:\n{}", self.log());
    }

    fn spawn(&self, properties: &Path, log: &str) -> JavaProcess {
        program::broker(&self.class_path(), self.jvm.options(), properties, &self.dir.path().join(log))
    }

    /// A second broker beside the first one, of 4.1.1 only.
    pub async fn start_second(&mut self) {
        let properties = self.dir.path().join("second.properties");
        std::fs::write(&properties, self.configuration_of_second()).unwrap();
        self.format(&properties);
        self.second = Some(self.spawn(&properties, "kafka-second.log"));
        let client = self.client_config();
        let process = self.second.as_mut().unwrap();
        assert!(serves(2, &client, process).await, "Kafka has ended:\n{}", process.log());
    }

    pub fn kill_second(&mut self) {
        self.second = None;
    }

    fn class_path(&self) -> String {
        class_path(match self.version {
            Version::Four => "kafka4.xml",
            Version::ThreeWithZooKeeper => "pom.xml",
        })
    }

    fn properties(&self) -> PathBuf {
        self.dir.path().join("server.properties")
    }

    fn format(&self, properties: &Path) {
        program::format(&self.class_path(), properties, self.security.iter().flat_map(Security::words_for_format));
    }
}

/// Waits until so many brokers answer; `false` if this one has ended instead.
async fn serves(count: usize, client: &ClientConfig, process: &mut JavaProcess) -> bool {
    let client: Arc<BaseConsumer> = Arc::new(client.create().unwrap());
    wait::until("Kafka serves", Duration::from_secs(60), || {
        let runs = process.runs();
        let client = Arc::clone(&client);
        let serve = move || client.fetch_metadata(None, Duration::from_secs(1)).is_ok_and(|metadata| metadata.brokers().len() >= count);
        async move {
            if !runs {
                return Some(false);
            }
            tokio::task::spawn_blocking(serve).await.unwrap().then_some(true)
        }
    })
    .await
}

//! Three brokers that replicate each other, each of which can be killed, frozen, cut off from its
//! clients and started again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rustix::process::Signal;
use tempfile::TempDir;

use super::program;
use crate::java::{JavaProcess, class_path};
use crate::relay::{Flow, Relay};
use crate::{ports, wait};

/// How many; each keeps a copy of everything, and two must have a message before it is acknowledged.
pub const SIZE: usize = 3;

/// A listener of its own, and the relay to it.
struct Way {
    relay: Arc<Relay>,
    listener: SocketAddr,
}

impl Way {
    async fn new() -> Self {
        let listener = ports::free();
        Self { relay: Arc::new(Relay::start(listener).await), listener }
    }
}

/// Kafka 4.1.1. Dropped, every broker is killed, and what they stored is gone.
pub struct Trio {
    dir: TempDir,
    brokers: Vec<Broker>,
}

struct Broker {
    /// Where clients are told to come: to the relay of the way that they came by.
    ways: Vec<Way>,
    /// Among themselves, past the relay.
    inside: SocketAddr,
    controller: SocketAddr,
    process: Option<JavaProcess>,
}

impl Trio {
    /// So many clients can have a way of their own, which is broken for them alone.
    pub async fn start(own_ways: usize) -> Self {
        let mut brokers = Vec::new();
        for _ in 0..SIZE {
            let mut ways = Vec::new();
            for _ in 0..=own_ways {
                ways.push(Way::new().await);
            }
            brokers.push(Broker { ways, inside: ports::free(), controller: ports::free(), process: None });
        }
        let mut trio = Self { dir: tempfile::tempdir().unwrap(), brokers };
        for index in 0..SIZE {
            std::fs::write(trio.properties(index), trio.configuration(index)).unwrap();
            program::format(&class_path("kafka4.xml"), &trio.properties(index), []);
            trio.spawn(index);
        }
        trio.until_served_by(SIZE).await;
        trio
    }

    /// `host:port` of each, for who needs no way of its own.
    pub fn brokers(&self) -> Vec<String> {
        self.brokers.iter().map(|broker| broker.ways[0].relay.addr().to_string()).collect()
    }

    /// To each broker, of one client, counted from 0.
    pub fn own_way(&self, client: usize) -> [Arc<Relay>; SIZE] {
        std::array::from_fn(|broker| self.brokers[broker].ways[client + 1].relay.clone())
    }

    /// `kill -9`.
    pub fn kill(&mut self, index: usize) {
        self.brokers[index].process = None;
    }

    /// SIGTERM, by which it hands its partitions over; returns once it has ended.
    pub async fn stop(&mut self, index: usize) {
        let Some(mut process) = self.brokers[index].process.take() else { return };
        process.signal(Signal::TERM);
        while process.runs() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn freeze(&self, index: usize) {
        self.process(index).freeze();
    }

    pub fn thaw(&self, index: usize) {
        self.process(index).signal(Signal::CONT);
    }

    /// What clients send it and it answers goes this way from now on.
    pub fn relay(&self, index: usize, flow: Flow) {
        self.brokers[index].ways.iter().for_each(|way| way.relay.both(flow));
    }

    /// Resets every connection of its clients.
    pub fn reset(&self, index: usize) {
        self.brokers[index].ways.iter().for_each(|way| way.relay.reset());
    }

    pub fn runs(&mut self, index: usize) -> bool {
        self.brokers[index].process.as_mut().is_some_and(JavaProcess::runs)
    }

    /// Starts it on what it stored, without waiting.
    pub fn spawn(&mut self, index: usize) {
        let options = ["-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        let log = self.dir.path().join(format!("broker-{index}.log"));
        self.brokers[index].process = Some(program::broker(&class_path("kafka4.xml"), &options, &self.properties(index), &log));
    }

    pub async fn until_served_by(&self, count: usize) {
        let client: Arc<BaseConsumer> = Arc::new(self.client_config().create().unwrap());
        wait::until("the brokers serve", Duration::from_secs(90), || {
            let client = client.clone();
            async move {
                let metadata =
                    move || client.fetch_metadata(None, Duration::from_secs(2)).is_ok_and(|found| found.brokers().len() >= count);
                tokio::task::spawn_blocking(metadata).await.unwrap().then_some(())
            }
        })
        .await;
    }

    pub async fn create_topic(&self, name: &str, partitions: i32) {
        assert!(self.try_create_topic(name, partitions).await, "{name} could not be created");
    }

    /// `false`: the cluster does not do it at the moment.
    pub async fn try_create_topic(&self, name: &str, partitions: i32) -> bool {
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(3)).set("min.insync.replicas", "2");
        let created = self.admin().create_topics(&[topic], &AdminOptions::new()).await;
        created.is_ok_and(|topics| topics.iter().all(Result::is_ok))
    }

    /// `false`: the cluster does not do it at the moment.
    pub async fn grow_topic(&self, name: &str, partitions: usize) -> bool {
        let grown = self.admin().create_partitions(&[NewPartitions::new(name, partitions)], &AdminOptions::new()).await;
        grown.is_ok_and(|topics| topics.iter().all(Result::is_ok))
    }

    /// `false`: the cluster does not do it at the moment.
    pub async fn delete_topic(&self, name: &str) -> bool {
        let deleted = self.admin().delete_topics(&[name], &AdminOptions::new()).await;
        deleted.is_ok_and(|topics| topics.iter().all(Result::is_ok))
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client_config().create().unwrap()
    }

    fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.brokers().join(",")).set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
        config
    }

    fn process(&self, index: usize) -> &JavaProcess {
        self.brokers[index].process.as_ref().expect("it runs")
    }

    fn properties(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("broker-{index}.properties"))
    }

    fn configuration(&self, index: usize) -> String {
        let Broker { ways, inside, controller, .. } = &self.brokers[index];
        let each = |text: fn(usize, &Way) -> String| (0..).zip(ways).map(|(number, way)| text(number, way)).collect::<String>();
        let voters: Vec<String> = (1..).zip(&self.brokers).map(|(id, broker)| format!("{id}@{}", broker.controller)).collect();
        format!(
            "node.id={id}\nprocess.roles=broker,controller\n\
             listeners={listeners}INSIDE://{inside},CONTROLLER://{controller}\n\
             advertised.listeners={advertised}INSIDE://{inside}\n\
             inter.broker.listener.name=INSIDE\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.voters={voters}\n\
             listener.security.protocol.map={protocols}INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             broker.session.timeout.ms=4000\nbroker.heartbeat.interval.ms=500\nreplica.lag.time.max.ms=5000\n\
             log.dirs={data}\nauto.create.topics.enable=false\nunclean.leader.election.enable=false\n\
             offsets.topic.num.partitions=1\ntransaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n\
             num.network.threads=1\nnum.io.threads=4\nlog.cleaner.dedupe.buffer.size=10000000\n",
            id = index + 1,
            listeners = each(|number, way| format!("CLIENTS{number}://{},", way.listener)),
            advertised = each(|number, way| format!("CLIENTS{number}://{},", way.relay.addr())),
            protocols = each(|number, _| format!("CLIENTS{number}:PLAINTEXT,")),
            voters = voters.join(","),
            data = self.dir.path().join(format!("data-{index}")).display(),
        )
    }
}

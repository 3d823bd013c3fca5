//! A real Kafka broker that can be killed, stopped, frozen and started again: 4.1.1 by itself, or
//! 3.9.2 with a `ZooKeeper` server beside it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::java::{JavaProcess, class_path};
use crate::zookeeper::ZooKeeper;
use crate::{ports, wait};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 4.1.1, which keeps its own metadata.
    Four,
    /// 3.9.2, with its metadata in `ZooKeeper`.
    ThreeWithZooKeeper,
}

/// Dropped, it is killed, and what it stored is gone.
pub struct Kafka {
    process: Option<JavaProcess>,
    /// Of a second broker, which the first one leads.
    second: Option<JavaProcess>,
    version: Version,
    addr: SocketAddr,
    controller: SocketAddr,
    zookeeper: Option<ZooKeeper>,
    dir: TempDir,
}

impl Kafka {
    pub async fn start(version: Version) -> Self {
        let zookeeper = match version {
            Version::Four => None,
            Version::ThreeWithZooKeeper => Some(ZooKeeper::start().await),
        };
        let dir = tempfile::tempdir().unwrap();
        let mut kafka = Self { process: None, second: None, version, addr: ports::free(), controller: ports::free(), zookeeper, dir };
        std::fs::write(kafka.properties(), kafka.configuration()).unwrap();
        if version == Version::Four {
            kafka.format(&kafka.properties());
        }
        kafka.restart().await;
        kafka
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

    /// Of 3.9.2.
    pub fn zookeeper(&self) -> &ZooKeeper {
        self.zookeeper.as_ref().expect("Kafka 4 has none")
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
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
        self.process.as_ref().expect("it runs").signal(Signal::STOP);
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
        panic!("Kafka has ended:\n{}", self.process.as_ref().unwrap().log());
    }

    fn spawn(&self, properties: &Path, log: &str) -> JavaProcess {
        let options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        let words = ["kafka.Kafka", properties.to_str().unwrap()];
        JavaProcess::start(&self.class_path(), &options, &words, &self.dir.path().join(log))
    }

    /// A second broker beside the first one, of 4.1.1 only.
    pub async fn start_second(&mut self) {
        let (addr, controller) = (ports::free(), self.controller);
        let text = self.configuration_of(2, "broker", &format!("PLAINTEXT://{addr}"), &format!("PLAINTEXT://{addr}"), controller);
        let properties = self.dir.path().join("second.properties");
        std::fs::write(&properties, text).unwrap();
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

    fn configuration(&self) -> String {
        let (addr, controller) = (self.addr, self.controller);
        match &self.zookeeper {
            Some(zookeeper) => {
                let zookeeper = zookeeper.connect_string();
                let own = format!(
                    "broker.id=1\nlisteners=PLAINTEXT://{addr}\nzookeeper.connect={zookeeper}\nzookeeper.session.timeout.ms=2000\n"
                );
                own + &self.common_configuration(1)
            }
            None => {
                let listeners = format!("PLAINTEXT://{addr},CONTROLLER://{controller}");
                self.configuration_of(1, "broker,controller", &listeners, &format!("PLAINTEXT://{addr}"), controller)
            }
        }
    }

    fn configuration_of(&self, id: u32, roles: &str, listeners: &str, advertised: &str, controller: SocketAddr) -> String {
        let own = format!(
            "node.id={id}\nprocess.roles={roles}\nlisteners={listeners}\nadvertised.listeners={advertised}\n\
             controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@{controller}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n"
        );
        own + &self.common_configuration(id)
    }

    fn common_configuration(&self, id: u32) -> String {
        format!(
            "log.dirs={}\nauto.create.topics.enable=false\nnum.partitions=1\noffsets.topic.replication.factor=1\n\
             offsets.topic.num.partitions=1\ntransaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\nnum.network.threads=2\nnum.io.threads=4\n\
             log.cleaner.backoff.ms=500\nlog.cleaner.dedupe.buffer.size=10000000\nlog.initial.task.delay.ms=500\n",
            self.dir.path().join(format!("data-{id}")).display()
        )
    }

    fn format(&self, properties: &Path) {
        let mut command = Command::new("java");
        command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", &self.class_path(), "kafka.tools.StorageTool", "format"]);
        command.args(["-t", "bWNnYXRlLXRlc3RzLS0tLQ", "-c"]).arg(properties);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Of a client that asks for nothing special.
    pub fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.brokers()).set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client_config().create().unwrap()
    }

    pub async fn create_topic(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        self.create(NewTopic::new(name, partitions, TopicReplication::Fixed(1)), settings).await;
    }

    /// With one partition, which the first broker leads, and a replica of it on the second.
    pub async fn create_topic_on_both(&self, name: &str, settings: &[(&str, &str)]) {
        self.create(NewTopic::new(name, 1, TopicReplication::Variable(&[&[1, 2]])), settings).await;
    }

    async fn create<'a>(&self, new: NewTopic<'a>, settings: &[(&'a str, &'a str)]) {
        let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
        let created = self.admin().create_topics(&[new], &AdminOptions::new()).await.unwrap();
        created.into_iter().for_each(|topic| drop(topic.unwrap()));
    }

    /// With one partition each.
    pub async fn create_topics(&self, names: &[&str]) {
        let admin = self.admin();
        for some in names.chunks(100) {
            let new: Vec<_> = some.iter().map(|name| NewTopic::new(name, 1, TopicReplication::Fixed(1))).collect();
            let options = AdminOptions::new().request_timeout(Some(Duration::from_secs(60)));
            let created = admin.create_topics(&new, &options).await.unwrap();
            created.into_iter().for_each(|topic| drop(topic.unwrap()));
        }
    }

    /// As by `kafka-delete-records`: everything before `offset` is gone.
    pub async fn delete_records(&self, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        self.admin().delete_records(&list, &AdminOptions::new()).await.unwrap();
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

//! Kafka with `ZooKeeper`, shared by the tests that break neither, and a chroot that one test has for itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use serde_json::{Value, json};

use crate::gateway::{Role, Setup};
use crate::kafka::{Kafka, Version};
use crate::wait;
use crate::zookeeper::tool::Tool;

pub use self::watch::{CursorWatch, OwnerWatch};

mod watch;

/// Of every pusher: long enough for a busy machine, short enough to wait for.
pub const SESSION: Duration = Duration::from_secs(6);
/// From the death of an owner until each of its partitions has another: session, tick, and 3 s.
pub const TAKEN_OVER: Duration = Duration::from_millis(9_500);

#[derive(Clone)]
pub struct Cluster {
    pub kafka: Arc<Kafka>,
    zookeeper: SocketAddr,
    /// With a slash before it; empty: none.
    chroot: String,
    /// Of the Kafka client.
    properties: BTreeMap<String, String>,
}

impl Cluster {
    /// The shared pair of Kafka 3.9.2 and its `ZooKeeper`, in a chroot of its own.
    pub async fn shared() -> Self {
        Self::on(Kafka::shared(Version::ThreeWithZooKeeper).await)
    }

    pub fn on(kafka: Arc<Kafka>) -> Self {
        let zookeeper = kafka.zookeeper().addr(0);
        Self::of(kafka, zookeeper)
    }

    /// Any Kafka, with any `ZooKeeper`.
    pub fn of(kafka: Arc<Kafka>, zookeeper: SocketAddr) -> Self {
        Self { kafka, zookeeper, chroot: format!("/{}", fresh("chroot")), properties: BTreeMap::new() }
    }

    /// What every gateway here sets of its Kafka client.
    #[must_use]
    pub fn with_properties(mut self, properties: &[(String, String)]) -> Self {
        self.properties.extend(properties.iter().cloned());
        self
    }

    /// In the chroot where the brokers are registered.
    #[must_use]
    pub fn at_the_root(mut self) -> Self {
        self.chroot.clear();
        self
    }

    /// To be broken: it is shared with nobody.
    pub fn own_kafka(&mut self) -> &mut Kafka {
        Arc::get_mut(&mut self.kafka).expect("nobody else uses this Kafka")
    }

    pub fn zookeeper(&self) -> SocketAddr {
        self.zookeeper
    }

    /// The chroot as a file has it.
    pub fn zk_path(&self) -> String {
        format!("/{}", self.chroot.trim_start_matches('/'))
    }

    pub fn proxy(&self) -> Setup {
        Setup { role: Role::Proxy, ..Setup::default() }.field("queue", self.queue())
    }

    /// A pusher named `instance`.
    pub fn pusher(&self, instance: &str, groups: impl IntoIterator<Item = Value>) -> Setup {
        let setup = Setup { role: Role::Pusher, ..Setup::groups(groups) }.field("queue", self.queue());
        let setup = setup.field("zookeepers", json!([self.zookeeper])).field("zk_path", json!(self.zk_path()));
        setup.pusher("instance", json!(instance)).pusher("session_timeout", json!(format!("{}s", SESSION.as_secs())))
    }

    fn queue(&self) -> Value {
        json!({"kafka": {"brokers": [self.kafka.brokers()], "properties": self.properties}})
    }

    /// A new topic whose name begins so.
    pub async fn topic(&self, name: &str, partitions: i32) -> String {
        let topic = fresh(name);
        self.kafka.create_topic(&topic, partitions, &[]).await;
        topic
    }

    pub fn tool(&self) -> Tool {
        Tool::connect(self.zookeeper)
    }

    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.chroot)
    }

    /// Makes the brokers known in this chroot too, as if Kafka lived there.
    pub fn register_brokers(&self) {
        let mut tool = self.tool();
        for id in tool.children("/brokers/ids") {
            let registration = tool.get(&format!("/brokers/ids/{id}")).expect("the broker runs");
            tool.put(&self.path(&format!("/brokers/ids/{id}")), &registration);
        }
    }

    /// The cursor of each partition that has one, as an old tool reads it.
    pub fn cursors(&self, group: &str, topic: &str) -> BTreeMap<u32, u64> {
        self.texts(group, "offsets", topic).into_iter().map(|(p, text)| (p, text.parse().unwrap_or_else(|_| panic!("{text:?}")))).collect()
    }

    /// The instance that owns each owned partition, as an old tool reads it.
    pub fn owners(&self, group: &str, topic: &str) -> BTreeMap<u32, String> {
        self.texts(group, "owners", topic)
    }

    /// The same of several groups, with one question.
    pub fn owners_of(&self, groups: &[String], topic: &str, partitions: u32) -> BTreeMap<String, BTreeMap<u32, String>> {
        let path = |group: &str, partition| self.path(&format!("/consumers/{group}/owners/{topic}/{partition}"));
        let paths: Vec<String> = groups.iter().flat_map(|group| (0..partitions).map(move |partition| path(group, partition))).collect();
        let found = self.tool().get_all(&paths);
        let of_group = |owners: &[Option<String>]| (0..).zip(owners).filter_map(|(p, owner)| Some((p, owner.clone()?))).collect();
        groups.iter().cloned().zip(found.chunks(partitions as usize).map(of_group)).collect()
    }

    fn texts(&self, group: &str, what: &str, topic: &str) -> BTreeMap<u32, String> {
        let (mut tool, folder) = (self.tool(), self.path(&format!("/consumers/{group}/{what}/{topic}")));
        let partitions = tool.children(&folder);
        // A node may be gone between the two.
        partitions.iter().filter_map(|p| Some((p.parse().unwrap(), tool.get(&format!("{folder}/{p}"))?))).collect()
    }

    /// Puts a cursor there as an old tool would.
    pub fn put_cursor(&self, group: &str, topic: &str, partition: u32, cursor: u64) {
        self.tool().put(&self.path(&format!("/consumers/{group}/offsets/{topic}/{partition}")), &cursor.to_string());
    }

    /// Waits until each partition of the topic is owned by one of `instances`, and returns by which.
    pub async fn until_owned(
        &self,
        group: &str,
        topic: &str,
        partitions: u32,
        instances: &[&str],
        within: Duration,
    ) -> BTreeMap<u32, String> {
        wait::until_right(within, || async {
            let owners = self.owners(group, topic);
            let all = owners.len() == partitions as usize && owners.values().all(|owner| instances.contains(&owner.as_str()));
            if all { Ok(owners) } else { Err(format!("of {instances:?} should own all {partitions} of {group}: {owners:?}")) }
        })
        .await
    }

    /// The end of each partition.
    pub async fn ends(&self, topic: &str) -> BTreeMap<u32, u64> {
        let (config, topic) = (self.kafka.client_config(), topic.to_owned());
        let ask = move || {
            let client: BaseConsumer = config.create().unwrap();
            let patience = Duration::from_secs(10);
            let metadata = client.fetch_metadata(Some(&topic), patience).unwrap();
            let end = |p: i32| (u32::try_from(p).unwrap(), u64::try_from(client.fetch_watermarks(&topic, p, patience).unwrap().1).unwrap());
            metadata.topics()[0].partitions().iter().map(|p| end(p.id())).collect()
        };
        tokio::task::spawn_blocking(ask).await.unwrap()
    }

    /// Waits until an old tool finds every cursor at the end of its partition.
    pub async fn until_cursors_at_end(&self, group: &str, topic: &str, within: Duration) {
        let ends = self.ends(topic).await;
        wait::until_right(within, || async {
            let cursors = self.cursors(group, topic);
            if cursors == ends { Ok(()) } else { Err(format!("cursors of {group} are {cursors:?}, and the ends {ends:?}")) }
        })
        .await;
    }

    /// As a native producer writes them: keys and values may be null.
    pub async fn produce(&self, topic: &str, records: &[(Option<&str>, Option<&str>)]) {
        let producer: ThreadedProducer<_> = self.kafka.client_config().set("partitioner", "murmur2_random").create().unwrap();
        for (key, value) in records {
            let mut record = BaseRecord::<str, str>::to(topic);
            (record.key, record.payload) = (*key, *value);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        tokio::task::spawn_blocking(move || producer.flush(Duration::from_secs(20)).unwrap()).await.unwrap();
    }
}

/// A name that nobody else has.
pub fn fresh(name: &str) -> String {
    format!("{name}-{:08x}", rand::random::<u32>())
}

//! What an administrator does to topics.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::Kafka;
use crate::wait;

impl Kafka {
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

    /// With two partitions, one on each of both brokers.
    pub async fn create_topic_on_each(&self, name: &str) {
        self.create(NewTopic::new(name, 2, TopicReplication::Variable(&[&[1], &[2]])), &[]).await;
    }

    async fn create<'a>(&self, new: NewTopic<'a>, settings: &[(&'a str, &'a str)]) {
        let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
        self.create_all(&[new]).await;
    }

    /// With one partition each.
    pub async fn create_topics(&self, names: &[&str]) {
        let new: Vec<_> = names.iter().map(|name| NewTopic::new(name, 1, TopicReplication::Fixed(1))).collect();
        self.create_all(&new).await;
    }

    /// A broker that has just begun to serve, on a busy machine, may not be the controller yet.
    async fn create_all(&self, new: &[NewTopic<'_>]) {
        let (admin, started) = (self.admin(), Instant::now());
        let options = AdminOptions::new().request_timeout(Some(Duration::from_secs(60)));
        let mut tries = 0;
        loop {
            let created = admin.create_topics(new, &options).await.unwrap();
            let refused: Vec<_> = created.into_iter().filter_map(Result::err).collect();
            let early = refused.iter().any(|(_, code)| *code == RDKafkaErrorCode::NotController);
            if !early || started.elapsed() > Duration::from_secs(20) {
                let there = |code: &RDKafkaErrorCode| tries > 0 && *code == RDKafkaErrorCode::TopicAlreadyExists;
                assert!(refused.iter().all(|(_, code)| there(code)), "{refused:?}");
                return;
            }
            tries += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Deletes it, and makes another one of that name.
    pub async fn recreate_topic(&self, name: &str, partitions: i32) {
        let deleted = self.admin().delete_topics(&[name], &AdminOptions::new()).await.unwrap();
        deleted.into_iter().for_each(|topic| drop(topic.unwrap()));
        // Deleting goes on in the background.
        wait::until("the topic to be made again", Duration::from_secs(30), || async {
            let new = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
            let created = self.admin().create_topics(&[new], &AdminOptions::new()).await.ok()?;
            created.into_iter().all(|topic| topic.is_ok()).then_some(())
        })
        .await;
    }

    /// As by `kafka-delete-records`: everything before `offset` is gone.
    pub async fn delete_records(&self, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        self.admin().delete_records(&list, &AdminOptions::new()).await.unwrap();
    }

    /// So many partitions in all.
    pub async fn add_partitions(&self, topic: &str, partitions: usize) {
        let new = NewPartitions::new(topic, partitions);
        let changed = self.admin().create_partitions(&[new], &AdminOptions::new()).await.unwrap();
        changed.into_iter().for_each(|topic| drop(topic.unwrap()));
    }
}

//! The same file of groups on either way to run: `standalone`, or a proxy and a pusher on Kafka and `ZooKeeper`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::{Cluster, fresh};
use crate::gateway::{Gateway, Setup};
use crate::producer::Producer;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Embedded,
    KafkaAndZooKeeper,
}

/// Where messages are posted and from where they are delivered: one process, or two.
pub struct Site {
    /// The proxy, where that is a process of its own.
    proxy: Option<Gateway>,
    /// The whole of it, or the pusher.
    pub pusher: Gateway,
    /// After the names of topics, which on a shared Kafka are nobody else's.
    suffix: String,
    /// Where there is one.
    pub cluster: Option<Cluster>,
}

impl Site {
    /// With every topic of every group there, and served; on Kafka too with as many partitions as the
    /// embedded queue would give them.
    pub async fn start(backend: Backend, setup: Setup) -> Self {
        let partitions = setup.embedded.get("partitions").map_or(4, |n| u32::try_from(n.as_u64().unwrap()).unwrap());
        let topics = topics_of(&setup.groups);
        let site = match backend {
            Backend::Embedded => Self { proxy: None, pusher: setup.start().await, suffix: String::new(), cluster: None },
            Backend::KafkaAndZooKeeper => Self::on_cluster(setup, &topics, partitions).await,
        };
        if backend == Backend::Embedded {
            for topic in &topics {
                site.pusher.create_topic(topic, partitions).await;
            }
        }
        for group in site.pusher.admin_get("/v1/groups").await["groups"].as_array().unwrap() {
            site.pusher.until_served(group["group"].as_str().unwrap(), partitions as usize).await;
        }
        site
    }

    async fn on_cluster(mut setup: Setup, topics: &BTreeSet<String>, partitions: u32) -> Self {
        let (cluster, suffix) = (Cluster::shared().await, fresh(""));
        for topic in topics {
            cluster.kafka.create_topic(&format!("{topic}{suffix}"), i32::try_from(partitions).unwrap(), &[]).await;
        }
        setup.groups.iter_mut().flat_map(names_in).for_each(|name| *name = format!("{}{suffix}", name.as_str().unwrap()).into());
        let mut proxy = cluster.proxy();
        proxy.proxy.extend(setup.proxy);
        let mut pusher = cluster.pusher("site", setup.groups);
        pusher.pusher.extend(setup.pusher);
        let (proxy, pusher) = (proxy.start().await, pusher.start().await);
        Self { proxy: Some(proxy), pusher, suffix, cluster: Some(cluster) }
    }

    /// Where messages are posted.
    pub fn proxy(&self) -> &Gateway {
        self.proxy.as_ref().unwrap_or(&self.pusher)
    }

    pub fn proxy_mut(&mut self) -> &mut Gateway {
        self.proxy.as_mut().unwrap_or(&mut self.pusher)
    }

    /// SIGTERM to all of it, the pusher first; each process must end well in time.
    pub async fn terminate(&mut self, within: Duration) {
        for gateway in std::iter::once(&mut self.pusher).chain(&mut self.proxy) {
            let status = gateway.terminate(within).await;
            assert_eq!(status.code(), Some(0), "{}", gateway.log());
        }
    }

    /// What the topic that the groups call so is called here.
    pub fn topic(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    pub fn producer(&self, topic: &str) -> Producer {
        Producer::new(self.proxy().api, &self.topic(topic))
    }
}

/// Every place of a group where a topic is named.
fn names_in(group: &mut Value) -> Vec<&mut Value> {
    let fields = group.as_object_mut().unwrap().iter_mut();
    fields
        .flat_map(|(field, value)| match field.as_str() {
            "topics" => value.as_array_mut().unwrap().iter_mut().collect(),
            "dead_letter_topic" => vec![value],
            _ => Vec::new(),
        })
        .collect()
}

fn topics_of(groups: &[Value]) -> BTreeSet<String> {
    groups.to_vec().iter_mut().flat_map(names_in).map(|name| name.as_str().unwrap().to_owned()).collect()
}

//! A configuration written out in the file's own format, every default included.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::leaf::{server, size, span, url};
use super::{
    Brokers, Config, CoordinatorConfig, EmbeddedQueueConfig, GroupConfig, InitialFrom, KafkaQueueConfig, ProxyConfig, PusherConfig,
    QueueConfig, Secret, SuccessStatus, ZooKeeperConfig,
};
use crate::coordinator::zookeeper::{AclMode, Ensemble};

/// What stands for a secret.
#[derive(Clone, Copy)]
pub(super) enum Secrets {
    /// `"***"`.
    Hidden,
    /// Itself: to compare, never to be shown.
    Exposed,
}

impl Config {
    /// What is in effect, as a file that would say the same, on several lines. Secrets are `"***"`,
    /// and so are user and password of a URL.
    pub fn effective(&self) -> String {
        format!("{:#}", self.to_json(Secrets::Hidden))
    }

    /// The same in one line, for a log.
    pub fn effective_in_one_line(&self) -> String {
        self.to_json(Secrets::Hidden).to_string()
    }

    pub(super) fn to_json(&self, secrets: Secrets) -> Value {
        let mut value = json!({});
        if let Some(ensemble) = self.ensemble() {
            put_ensemble(&mut value, ensemble);
        }
        value["queue"] = match &self.queue {
            QueueConfig::Embedded(queue) => json!({ "embedded": embedded(queue) }),
            QueueConfig::Kafka(queue) => json!({ "kafka": kafka(queue, secrets) }),
        };
        value["coordinator"] = match &self.coordinator {
            CoordinatorConfig::Embedded { dir } => json!({ "embedded": { "dir": dir } }),
            CoordinatorConfig::ZooKeeper(config) => json!({ "zookeeper": zookeeper(config, secrets) }),
        };
        value["proxy"] = proxy(&self.proxy, secrets);
        if let QueueConfig::Kafka(queue) = &self.queue {
            value["proxy"]["compression"] = json!(queue.compression.word());
            value["proxy"]["partitioner"] = json!(queue.partitioner.word());
            value["proxy"]["auto_create_topics"] = json!(queue.auto_create_topics);
        }
        value["pusher"] = pusher(&self.pusher, secrets);
        value["consumer_groups"] = self.groups.iter().map(group).collect();
        value
    }

    /// The file's own, if anything of it is used.
    fn ensemble(&self) -> Option<&Ensemble> {
        match (&self.coordinator, &self.queue) {
            (CoordinatorConfig::ZooKeeper(zookeeper), _) => Some(&zookeeper.ensemble),
            (CoordinatorConfig::Embedded { .. }, QueueConfig::Kafka(queue)) => registered(&queue.brokers),
            (CoordinatorConfig::Embedded { .. }, QueueConfig::Embedded(_)) => None,
        }
    }
}

fn registered(brokers: &Brokers) -> Option<&Ensemble> {
    match brokers {
        Brokers::Registered(ensemble) => Some(ensemble),
        Brokers::Listed(_) => None,
    }
}

fn listed(brokers: &Brokers) -> Option<&[String]> {
    match brokers {
        Brokers::Listed(brokers) => Some(brokers),
        Brokers::Registered(_) => None,
    }
}

fn put_ensemble(value: &mut Value, ensemble: &Ensemble) {
    value["zookeepers"] = json!(server::hosts(ensemble));
    value["zk_path"] = json!(if ensemble.chroot().is_empty() { "/" } else { ensemble.chroot() });
}

fn embedded(queue: &EmbeddedQueueConfig) -> Value {
    json!({
        "dir": queue.dir,
        "partitions": queue.partitions,
        "auto_create_topics": queue.auto_create_topics,
        "retention": duration(queue.retention),
        "retention_bytes": queue.retention_bytes.map(size::spell),
        "max_topics": queue.max_topics,
    })
}

fn kafka(queue: &KafkaQueueConfig, secrets: Secrets) -> Value {
    let properties: Map<String, Value> = match secrets {
        Secrets::Hidden => queue.properties.shown().map(|(name, value)| (name.to_owned(), json!(value.unwrap_or("***")))).collect(),
        Secrets::Exposed => queue.properties.expose().iter().map(|(name, value)| (name.clone(), json!(value))).collect(),
    };
    json!({ "brokers": listed(&queue.brokers), "properties": properties })
}

fn zookeeper(config: &ZooKeeperConfig, secrets: Secrets) -> Value {
    let acl = match config.acl {
        AclMode::Open => "open",
        AclMode::Creator => "creator",
    };
    json!({ "digest": secret(config.digest.as_ref(), "***:***", secrets), "acl": acl })
}

fn proxy(proxy: &ProxyConfig, secrets: Secrets) -> Value {
    json!({
        "listen": proxy.listen,
        "admin": proxy.admin,
        "admin_token": secret(proxy.admin_token.as_ref(), "***", secrets),
        "allow_anonymous": proxy.allow_anonymous,
        "produce_timeout": duration(proxy.produce_timeout),
        "max_message_bytes": bytes(proxy.max_message_bytes),
        "max_in_flight_requests": proxy.max_in_flight_requests,
        "max_in_flight_bytes": bytes(proxy.max_in_flight_bytes),
        "head_timeout": duration(proxy.head_timeout),
        "body_timeout": duration(proxy.body_timeout),
        "idle_timeout": duration(proxy.idle_timeout),
        "drain_timeout": duration(proxy.drain_timeout),
    })
}

fn pusher(pusher: &PusherConfig, secrets: Secrets) -> Value {
    json!({
        "admin": pusher.admin,
        "admin_token": secret(pusher.admin_token.as_ref(), "***", secrets),
        "instance": pusher.instance,
        "session_timeout": duration(pusher.session_timeout),
        "drain_timeout": duration(pusher.drain_timeout),
        "max_buffered_bytes": bytes(pusher.max_buffered_bytes),
    })
}

fn group(group: &GroupConfig) -> Value {
    let mut value = json!({
        "group": group.group,
        "url": url::shown(&group.url.to_string()),
        "topics": group.topics,
        "worker_num": group.worker_num,
        "retry_times": group.retry_times,
        "bypass_failed": group.bypass_failed,
        "failed_sleep": duration(group.failed_sleep),
        "timeout": duration(group.timeout),
        "connect_timeout": duration(group.connect_timeout),
        "processing_timeout": group.processing_timeout.map(duration),
        "retry_backoff": { "initial": duration(group.retry_backoff.initial), "max": duration(group.retry_backoff.max) },
        "order": group.order.name(),
        "delay": group.delay.map(duration),
        "dead_letter_topic": group.dead_letter_topic,
        "serializer": group.serializer.name(),
        "content_type": group.content_type.as_ref().map(|value| String::from_utf8_lossy(value.as_bytes())),
        "success_status": status(group.success_status),
        "retry_after_max": duration(group.retry_after_max),
        "commit_interval": duration(group.commit_interval),
        "idle_timeout": duration(group.idle_timeout),
        "connection_max_age": duration(group.connection_max_age),
        "max_in_flight_records": group.max_in_flight_records,
        "max_in_flight_bytes": bytes(group.max_in_flight_bytes),
    });
    let (name, begin) = match group.initial_from {
        InitialFrom::Oldest => ("initial_from_oldest", json!(true)),
        InitialFrom::Newest => ("initial_from_oldest", json!(false)),
        InitialFrom::Time(ms) => ("initial_from", json!(time(ms))),
    };
    value[name] = begin;
    if let Some(brokers) = &group.brokers {
        value["brokers"] = json!(listed(brokers));
    }
    if let Some(ensemble) = group.ensemble.as_ref().or(group.brokers.as_ref().and_then(registered)) {
        put_ensemble(&mut value, ensemble);
    }
    value
}

fn duration(span: Duration) -> String {
    span::spell(span)
}

fn bytes(size: usize) -> String {
    size::spell(size as u64)
}

fn secret<'s>(secret: Option<&'s Secret>, hidden: &'s str, secrets: Secrets) -> Option<&'s str> {
    secret.map(|secret| match secrets {
        Secrets::Hidden => hidden,
        Secrets::Exposed => secret.expose(),
    })
}

fn status(status: SuccessStatus) -> Value {
    match status {
        SuccessStatus::Any2xx => json!(status.to_string()),
        SuccessStatus::Exactly(status) => json!(status),
    }
}

/// RFC 3339 to the millisecond. What was read from such a text always is one again.
pub(super) fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| format!("{ms} ms"), |time| time.to_string())
}

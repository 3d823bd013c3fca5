//! A configuration written out in the file's own format, every default included.

use std::time::Duration;

use serde_json::{Value, json};

use super::leaf::{size, span, url};
use super::{
    Config, CoordinatorConfig, EmbeddedQueueConfig, GroupConfig, InitialFrom, Order, ProxyConfig, PusherConfig, QueueConfig, Secret,
    Serializer, SuccessStatus,
};

impl Config {
    /// What is in effect, as a file that would say the same, on several lines. Secrets are `"***"`,
    /// and so are user and password of a URL.
    pub fn effective(&self) -> String {
        format!("{:#}", self.to_json())
    }

    /// The same in one line, for a log.
    pub fn effective_in_one_line(&self) -> String {
        self.to_json().to_string()
    }

    fn to_json(&self) -> Value {
        let CoordinatorConfig::Embedded { dir } = &self.coordinator;
        let QueueConfig::Embedded(queue) = &self.queue;
        json!({
            "queue": { "embedded": embedded(queue) },
            "coordinator": { "embedded": { "dir": dir } },
            "proxy": proxy(&self.proxy),
            "pusher": pusher(&self.pusher),
            "consumer_groups": self.groups.iter().map(group).collect::<Vec<_>>(),
        })
    }
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

fn proxy(proxy: &ProxyConfig) -> Value {
    json!({
        "listen": proxy.listen,
        "admin": proxy.admin,
        "admin_token": secret(proxy.admin_token.as_ref()),
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

fn pusher(pusher: &PusherConfig) -> Value {
    json!({
        "admin": pusher.admin,
        "admin_token": secret(pusher.admin_token.as_ref()),
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
        "order": order_name(group.order),
        "delay": group.delay.map(duration),
        "dead_letter_topic": group.dead_letter_topic,
        "serializer": serializer(group.serializer),
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
    value
}

fn duration(span: Duration) -> String {
    span::spell(span)
}

fn bytes(size: usize) -> String {
    size::spell(size as u64)
}

fn secret(secret: Option<&Secret>) -> Option<&'static str> {
    secret.map(|_| "***")
}

pub(super) fn order_name(order: Order) -> &'static str {
    match order {
        Order::Key => "key",
        Order::Partition => "partition",
        Order::None => "none",
    }
}

fn serializer(serializer: Serializer) -> &'static str {
    match serializer {
        Serializer::Raw => "raw",
        Serializer::Json => "json",
    }
}

fn status(status: SuccessStatus) -> Value {
    match status {
        SuccessStatus::Any2xx => json!("2xx"),
        SuccessStatus::Exactly(status) => json!(status),
    }
}

/// RFC 3339 to the millisecond. What was read from such a text always is one again.
pub(super) fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| format!("{ms} ms"), |time| time.to_string())
}

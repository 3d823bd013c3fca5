//! The configuration as the program uses it: checked, complete, and unable to be wrong.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::ids::{GroupName, Topic};
use crate::record::TimestampMs;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub queue: QueueConfig,
    pub coordinator: CoordinatorConfig,
    pub proxy: ProxyConfig,
    pub pusher: PusherConfig,
    pub groups: Vec<GroupConfig>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum QueueConfig {
    Embedded(EmbeddedQueueConfig),
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
pub enum CoordinatorConfig {
    Embedded { dir: PathBuf },
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProxyConfig {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    pub admin_token: Option<Secret>,
    pub allow_anonymous: bool,
    pub produce_timeout: Duration,
    /// Key, value and headers together.
    pub max_message_bytes: usize,
    pub max_in_flight_requests: usize,
    pub max_in_flight_bytes: usize,
    pub head_timeout: Duration,
    pub body_timeout: Duration,
    pub idle_timeout: Duration,
    pub drain_timeout: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PusherConfig {
    pub admin: SocketAddr,
    pub admin_token: Option<Secret>,
    pub instance: String,
    pub session_timeout: Duration,
    pub drain_timeout: Duration,
    pub max_buffered_bytes: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GroupConfig {
    pub group: GroupName,
    pub url: http::Uri,
    pub topics: Vec<Topic>,
    pub worker_num: usize,
    pub retry_times: u32,
    pub bypass_failed: bool,
    pub failed_sleep: Duration,
    pub timeout: Duration,
    pub connect_timeout: Duration,
    pub processing_timeout: Option<Duration>,
    pub retry_backoff: RetryBackoff,
    pub initial_from: InitialFrom,
    pub order: Order,
    pub delay: Option<Duration>,
    pub dead_letter_topic: Option<Topic>,
    pub serializer: Serializer,
    pub content_type: Option<http::HeaderValue>,
    pub success_status: SuccessStatus,
    pub retry_after_max: Duration,
    pub commit_interval: Duration,
    pub idle_timeout: Duration,
    pub connection_max_age: Duration,
    pub max_in_flight_records: usize,
    pub max_in_flight_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBackoff {
    pub initial: Duration,
    pub max: Duration,
}

/// Where a group that has never seen a topic begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialFrom {
    Oldest,
    Newest,
    Time(TimestampMs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Key,
    Partition,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serializer {
    Raw,
    /// What the original proxy wrote: an envelope around `Data`.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessStatus {
    Any2xx,
    Exactly(u16),
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for a comparison or a header; never for a log.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

//! The configuration: what is read from a file and from flags ([`load`], [`parse`], [`defaults`]),
//! and what the program uses ([`Config`]: checked, complete, and unable to be wrong).
//!
//! The way of a file: `source` (bytes to text) → `tree` (text to JSON values with places) →
//! `section` and `leaf` (values to fields, as `file` declares them) → `overrides` → `resolve`
//! (what single fields cannot say). Each adds its faults to one `Report`, so that all are seen at once.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use jsonc_parser::common::Range;

pub use self::backend::{Brokers, CoordinatorConfig, EmbeddedQueueConfig, KafkaQueueConfig, Properties, QueueConfig, ZooKeeperConfig};
pub use self::check::verdict;
pub use self::cloud::is_cloud_metadata;
pub use self::fault::{Fault, Faults, Place, Warning};
use self::fault::{Origin, Report, Spot};
use self::file::File;
use self::leaf::Leaf;
pub use self::overrides::Overrides;
pub use self::reference::reference;
pub use self::render::Colour;
pub use self::role::Role;
pub use self::schema::json_schema;
use self::section::Nested;
pub use self::source::Position;
use self::source::Source;
pub use self::words::{Order, Serializer, SuccessStatus};
use crate::coordinator::zookeeper::Ensemble;
use crate::ids::{GroupName, Topic};
use crate::record::TimestampMs;

mod backend;
mod check;
mod cloud;
mod effective;
mod fault;
mod file;
mod leaf;
mod nearest;
mod overrides;
mod reference;
mod reload;
mod render;
mod resolve;
mod role;
mod schema;
mod section;
mod source;
#[cfg(test)]
mod tests;
mod tree;
mod words;

/// A configuration to run with, and what its author should know.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Vec<Warning>,
}

/// Reads a file; flags overrule it. Without a role, for the one that the file seems to be for.
///
/// # Errors
/// Everything that is wrong with either, at once; a syntax error hides what comes after it.
pub fn load(role: impl Into<Option<Role>>, path: &Path, overrides: &Overrides) -> Result<Loaded, Faults> {
    let name = path.display().to_string();
    let opened = std::fs::File::open(path).map_err(|error| unreadable(&name, &error))?;
    load_from(role, &name, opened, overrides)
}

/// Reads what comes from elsewhere than a file, such as standard input; messages call it `name`.
///
/// # Errors
/// As [`load`].
pub fn load_from(role: impl Into<Option<Role>>, name: &str, reader: impl Read, overrides: &Overrides) -> Result<Loaded, Faults> {
    // One byte more than is accepted, so that a pipe without an end is left alone, too.
    let limit = source::MAX_FILE_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    reader.take(limit).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    parse(role, name, &bytes, overrides)
}

fn unreadable(name: &str, error: &std::io::Error) -> Faults {
    Faults(vec![Fault::of_file(name, format!("the configuration cannot be read: {error}"))])
}

/// Reads the text of a file that messages call `name`. Secrets in it are fetched from where it says.
///
/// # Errors
/// As [`load`].
pub fn parse(role: impl Into<Option<Role>>, name: &str, bytes: &[u8], overrides: &Overrides) -> Result<Loaded, Faults> {
    let source = Source::new(name, bytes).map_err(|why| Faults(vec![Fault::of_file(name, why.to_string())]))?;
    let mut report = Report::new(Some(&source));
    let file = tree::parse(&source, &mut report).and_then(|root| Nested::<File>::new().read(&root, "$", &mut report));
    resolve(role.into(), file, overrides, report)
}

/// Without a file: defaults and flags.
///
/// # Errors
/// Everything that is wrong with the flags.
pub fn defaults(role: Role, overrides: &Overrides) -> Result<Loaded, Faults> {
    resolve(Some(role), default_file(), overrides, Report::new(None))
}

fn default_file() -> Option<File> {
    Nested::new().absent(&Spot { path: "$".to_owned(), origin: Origin::Within(Range::new(0, 0)) })
}

fn resolve(role: Option<Role>, file: Option<File>, overrides: &Overrides, mut report: Report<'_>) -> Result<Loaded, Faults> {
    let config = match file {
        Some(mut file) => {
            let role = role.unwrap_or_else(|| Role::of(&file));
            overrides.apply(role, &mut file, &mut report);
            resolve::config(role, file, &mut report)
        }
        None => {
            // The flags are looked at all the same.
            let role = role.unwrap_or(Role::Standalone);
            default_file().iter_mut().for_each(|file| overrides.apply(role, file, &mut report));
            None
        }
    };
    let warnings = report.finish()?;
    Ok(Loaded { config: config.expect("what is missing has been reported"), warnings })
}

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Whose configuration it is.
    pub role: Role,
    pub queue: QueueConfig,
    pub coordinator: CoordinatorConfig,
    pub proxy: ProxyConfig,
    pub pusher: PusherConfig,
    pub groups: Vec<GroupConfig>,
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
    /// Whether the name was written. Otherwise it is made of `url`, and changes with it.
    pub named: bool,
    pub url: http::Uri,
    pub topics: Vec<Topic>,
    /// `None`: the embedded queue.
    pub brokers: Option<Brokers>,
    /// `None`: the embedded coordinator.
    pub ensemble: Option<Ensemble>,
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

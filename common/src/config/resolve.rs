//! From what was read to what the program uses: what a single field cannot say.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::fault::{Report, Spot};
use super::file::{self, EmbeddedQueue, File, Kafka};
use super::leaf::address::is_loopback;
use super::section::Given;
use super::{Config, CoordinatorConfig, EmbeddedQueueConfig, GroupConfig, ProxyConfig, PusherConfig, QueueConfig, Secret};
use crate::ids::GroupName;

mod dead_letters;
mod group;

/// The default, which may be written down without comment.
const UNUSED_PROXY_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9089);

/// `None`: something was refused, and is reported.
pub(super) fn config(file: File, report: &mut Report<'_>) -> Option<Config> {
    let proxy = file.proxy.value.and_then(|raw| proxy(raw, report));
    let pusher = file.pusher.value.and_then(|raw| pusher(raw, proxy.as_ref(), report));
    let queue = file.queue.value.and_then(|queue| queue.embedded.value).and_then(|raw| queue_config(raw, report));
    let coordinator = file.coordinator.value.and_then(|coordinator| coordinator.embedded.value);
    let groups = file.consumer_groups.value.and_then(|raw| groups(raw, report));
    let queue = queue?;
    let dir = coordinator?.dir.value?.unwrap_or_else(|| queue.dir.clone());
    Some(Config {
        queue: QueueConfig::Embedded(queue),
        coordinator: CoordinatorConfig::Embedded { dir },
        proxy: proxy?,
        pusher: pusher?,
        groups: groups?,
    })
}

fn queue_config(raw: EmbeddedQueue, report: &mut Report<'_>) -> Option<EmbeddedQueueConfig> {
    if raw.retention_bytes.value == Some(None) && report.has_file() {
        let message = "no bound but the disk: a group that stands still keeps everything it has not passed; set a size such as \"10GiB\"";
        report.warning_at(&raw.retention_bytes.spot, message);
    }
    Some(EmbeddedQueueConfig {
        dir: raw.dir.value?,
        partitions: narrow(raw.partitions.value?),
        auto_create_topics: raw.auto_create_topics.value?,
        retention: raw.retention.value?,
        retention_bytes: raw.retention_bytes.value?,
        max_topics: narrow(raw.max_topics.value?),
    })
}

fn proxy(raw: file::Proxy, report: &mut Report<'_>) -> Option<ProxyConfig> {
    check_kafka_only(&raw, report);
    check_token("proxy.admin_token", &raw.admin, &raw.admin_token, report);
    if let (Some(listen), Some(false)) = (raw.listen.value, raw.allow_anonymous.value)
        && !is_loopback(listen)
    {
        let message = format!(
            "{listen} is reached by others than this machine, and anybody could produce there; say `proxy.allow_anonymous: true` if that is meant"
        );
        report.fault_at(&raw.listen.spot, message);
    }
    if raw.admin.value.is_some_and(|admin| admin != UNUSED_PROXY_ADMIN) {
        report.warning_at(&raw.admin.spot, "`standalone` serves one admin port, `pusher.admin`; this one is not opened");
    }
    if let (Some(message), Some(all)) = (raw.max_message_bytes.value, raw.max_in_flight_bytes.value)
        && message > all
    {
        let spot = if raw.max_message_bytes.is_given() { &raw.max_message_bytes.spot } else { &raw.max_in_flight_bytes.spot };
        report.fault_at(spot, "`max_message_bytes` is more than `max_in_flight_bytes`: the largest messages could never be taken in");
    }
    Some(ProxyConfig {
        listen: raw.listen.value?,
        admin: raw.admin.value?,
        admin_token: raw.admin_token.value?,
        allow_anonymous: raw.allow_anonymous.value?,
        produce_timeout: raw.produce_timeout.value?,
        max_message_bytes: narrow(raw.max_message_bytes.value?),
        max_in_flight_requests: narrow(raw.max_in_flight_requests.value?),
        max_in_flight_bytes: narrow(raw.max_in_flight_bytes.value?),
        head_timeout: raw.head_timeout.value?,
        body_timeout: raw.body_timeout.value?,
        idle_timeout: raw.idle_timeout.value?,
        drain_timeout: raw.drain_timeout.value?,
    })
}

/// Settings of the Kafka queue are refused where they ask for something else than happens anyway.
fn check_kafka_only(raw: &file::Proxy, report: &mut Report<'_>) {
    for (name, choice) in [("compression", &raw.compression), ("partitioner", &raw.partitioner)] {
        if choice.value == Some(Kafka::Only) {
            report.fault_at(&choice.spot, format!("this `{name}` needs the Kafka queue, which this version does not have yet"));
        }
    }
    if raw.auto_create_topics.is_given() {
        let message = "has no effect on the embedded queue; `queue.embedded.auto_create_topics` says whether messages make topics there";
        report.warning_at(&raw.auto_create_topics.spot, message);
    }
}

fn pusher(raw: file::Pusher, proxy: Option<&ProxyConfig>, report: &mut Report<'_>) -> Option<PusherConfig> {
    check_token("pusher.admin_token", &raw.admin, &raw.admin_token, report);
    if let (Some(admin), Some(listen)) = (raw.admin.value, proxy.map(|proxy| proxy.listen)) {
        let same_host = admin.ip() == listen.ip() || admin.ip().is_unspecified() || listen.ip().is_unspecified();
        if admin.port() != 0 && admin.port() == listen.port() && same_host {
            report.fault_at(&raw.admin.spot, format!("port {} is `proxy.listen`'s already", admin.port()));
        }
    }
    Some(PusherConfig {
        admin: raw.admin.value?,
        admin_token: raw.admin_token.value?,
        instance: raw.instance.value?.unwrap_or_else(instance),
        session_timeout: raw.session_timeout.value?,
        drain_timeout: raw.drain_timeout.value?,
        max_buffered_bytes: narrow(raw.max_buffered_bytes.value?),
    })
}

fn check_token(name: &str, admin: &Given<SocketAddr>, token: &Given<Option<Secret>>, report: &mut Report<'_>) {
    if let (Some(address), Some(None)) = (admin.value, &token.value)
        && !is_loopback(address)
    {
        report.fault_at(&admin.spot, format!("{address} is reached by others than this machine; it needs `{name}`, such as \"env:NAME\""));
    }
}

/// `<host>-<pid>-<random>`, without what no path element may hold.
fn instance() -> String {
    let host = gethostname::gethostname().to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c), "_");
    let host: String = host.chars().take(200).collect();
    format!("{host}-{}-{:06x}", std::process::id(), rand::random::<u32>() & 0xFF_FFFF)
}

fn groups(raw: Vec<Given<file::Group>>, report: &mut Report<'_>) -> Option<Vec<GroupConfig>> {
    let mut names: HashMap<GroupName, Spot> = HashMap::new();
    let mut groups = Some(Vec::with_capacity(raw.len()));
    dead_letters::check(&raw, report);
    for entry in raw {
        let resolved = entry.value.and_then(|entry| {
            let name = group::name(&entry);
            if let Some((name, spot)) = name.clone() {
                check_name(&name, &spot, names.get(&name), report);
                names.entry(name).or_insert(spot);
            }
            group::config(entry, name.map(|(name, _)| name), report)
        });
        groups = groups.zip(resolved).map(|(mut groups, group)| {
            groups.push(group);
            groups
        });
    }
    groups
}

fn check_name(name: &GroupName, spot: &Spot, taken: Option<&Spot>, report: &mut Report<'_>) {
    if let Some(first) = taken {
        let (first, second) = (report.mention(first), report.mention(spot));
        let message = format!(
            "two groups are named {name:?}, in {first} and in {second}; give one another name by `group` (the default is made of `url`)",
            name = name.as_str()
        );
        report.fault_at(spot, message);
    }
}

/// A number whose bounds, in its field's declaration, fit the type.
fn narrow<T: TryFrom<u64>>(number: u64) -> T {
    T::try_from(number).ok().expect("the field's bounds lie within the type")
}

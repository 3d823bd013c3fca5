//! Which queue and which coordinator: what the file says, and what its reader takes otherwise.

use std::path::PathBuf;

use super::narrow;
use super::servers::Servers;
use crate::config::fault::{Report, Spot};
use crate::config::file::{self, EmbeddedQueue, File};
use crate::config::role::Role;
use crate::config::{CoordinatorConfig, EmbeddedQueueConfig, KafkaQueueConfig, QueueConfig, Secret, ZooKeeperConfig};
use crate::coordinator::zookeeper::AclMode;
use crate::queue::kafka::{Compression, Partitioner};

/// The pairs that there are. Cursors of the embedded queue lie beside it: another process has another log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backends {
    Embedded,
    Kafka(Cursors),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cursors {
    Embedded,
    ZooKeeper,
}

#[derive(Clone, Copy)]
enum Kind {
    Embedded,
    Kafka,
}

/// `None`: the file says two things, or one that the process cannot do; that is reported.
pub(super) fn decide(role: Role, file: &File, report: &mut Report<'_>) -> Option<Backends> {
    check_acl(file, report);
    let (kind, cursors) = (kind(role, file, report), cursors(role, file, report));
    if let Some(Kind::Embedded) = kind {
        check_coordinator(file, report);
        check_embedded(file, report);
    }
    let backends = match (kind?, cursors?) {
        (Kind::Embedded, _) => Backends::Embedded,
        (Kind::Kafka, cursors) => Backends::Kafka(cursors),
    };
    if backends == Backends::Kafka(Cursors::ZooKeeper)
        && let Some(dir) = file.coordinator.value.as_ref().and_then(|coordinator| coordinator.embedded.value.as_ref()).map(|raw| &raw.dir)
        && dir.spot.is_flag()
    {
        report.warning_at(&dir.spot, "has no effect: messages are in Kafka, and cursors in ZooKeeper");
    }
    Some(backends)
}

fn kind(role: Role, file: &File, report: &mut Report<'_>) -> Option<Kind> {
    let embedded = &file.queue.value.as_ref()?.embedded;
    match (embedded.is_given(), asks_for_kafka(file), role) {
        (true, Some(kafka), _) => {
            let other = report.mention(&embedded.spot);
            report.fault_at(kafka, format!("there is one queue, and `queue.embedded` is it already, in {other}; keep one"));
            None
        }
        (true, None, Role::Proxy | Role::Pusher) => {
            let message = format!(
                "the embedded queue is for one process, which takes messages in and pushes them out: `mqgate standalone`; \
                 `mqgate {role}` needs Kafka, \"queue\": {{ \"kafka\": {{}} }}"
            );
            report.fault_at(&embedded.spot, message);
            None
        }
        (_, None, Role::Standalone) => Some(Kind::Embedded),
        (false, Some(_), _) | (false, None, Role::Proxy | Role::Pusher) => Some(Kind::Kafka),
    }
}

/// Where the file or a flag says that the queue is Kafka.
fn asks_for_kafka(file: &File) -> Option<&Spot> {
    let kafka = &file.queue.value.as_ref()?.kafka;
    let flag = kafka.value.as_ref().map(|kafka| &kafka.brokers.spot).filter(|spot| spot.is_flag());
    let zookeepers = Some(&file.zookeepers.spot).filter(|spot| spot.is_flag());
    kafka.is_given().then_some(&kafka.spot).or(flag).or(zookeepers)
}

/// Beside Kafka, if that is the queue.
fn cursors(role: Role, file: &File, report: &mut Report<'_>) -> Option<Cursors> {
    let coordinator = file.coordinator.value.as_ref()?;
    match (coordinator.embedded.is_given(), coordinator.zookeeper.is_given(), role) {
        (true, true, _) => {
            let other = report.mention(&coordinator.embedded.spot);
            let message = format!("there is one coordinator, and `coordinator.embedded` is it already, in {other}; keep one");
            report.fault_at(&coordinator.zookeeper.spot, message);
            None
        }
        (true, false, _) => Some(Cursors::Embedded),
        (false, false, Role::Standalone) if !names_ensemble(file) => Some(Cursors::Embedded),
        (false, _, _) => Some(Cursors::ZooKeeper),
    }
}

fn groups(file: &File) -> impl Iterator<Item = &file::Group> {
    file.consumer_groups.value.iter().flatten().filter_map(|group| group.value.as_ref())
}

/// Whether servers of ZooKeeper are named anywhere.
fn names_ensemble(file: &File) -> bool {
    file.names_servers() || groups(file).any(file::Group::names_ensemble)
}

/// Whoever names servers means Kafka, and would wonder where its messages are.
fn check_embedded(file: &File, report: &mut Report<'_>) {
    let mut check = |name: &str, spot: &Spot, is_set: bool| {
        if is_set {
            let message = format!(
                "`{name}` belongs to a Kafka queue, and the queue is the embedded one here; leave it out, or say \
                 \"queue\": {{ \"kafka\": {{}} }}; `mqgate pusher` takes Kafka by itself"
            );
            report.fault_at(spot, message);
        }
    };
    check("zookeepers", &file.zookeepers.spot, file.zookeepers.is_set());
    check("zk_path", &file.zk_path.spot, file.zk_path.is_set());
    for group in groups(file) {
        check("zookeepers", &group.zookeepers.spot, group.zookeepers.is_set());
        check("zk_path", &group.zk_path.spot, group.zk_path.is_set());
        check("brokers", &group.brokers.spot, group.brokers.is_set());
    }
    let Some(proxy) = &file.proxy.value else { return };
    check("compression", &proxy.compression.spot, !matches!(proxy.compression.value, None | Some(Compression::None)));
    check("partitioner", &proxy.partitioner.spot, !matches!(proxy.partitioner.value, None | Some(Partitioner::Murmur2Random)));
    if proxy.auto_create_topics.is_given() {
        let message = "has no effect on the embedded queue; `queue.embedded.auto_create_topics` says whether messages make topics there";
        report.warning_at(&proxy.auto_create_topics.spot, message);
    }
}

fn check_coordinator(file: &File, report: &mut Report<'_>) {
    if let Some(coordinator) = &file.coordinator.value
        && coordinator.zookeeper.is_given()
        && !coordinator.embedded.is_given()
    {
        let message = "cursors of the embedded queue lie beside it, since another process has another log; ZooKeeper comes with \
                       \"queue\": { \"kafka\": {} }";
        report.fault_at(&coordinator.zookeeper.spot, message);
    }
}

fn embedded_queue(raw: EmbeddedQueue, report: &mut Report<'_>) -> Option<EmbeddedQueueConfig> {
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

pub(super) fn queue(raw: file::Queue, proxy: Option<&file::Proxy>, servers: &Servers, report: &mut Report<'_>) -> Option<QueueConfig> {
    match servers.brokers() {
        None => embedded_queue(raw.embedded.value?, report).map(QueueConfig::Embedded),
        Some(brokers) => Some(QueueConfig::Kafka(KafkaQueueConfig {
            brokers,
            properties: raw.kafka.value?.properties.value?,
            compression: proxy?.compression.value?,
            partitioner: proxy?.partitioner.value?,
            auto_create_topics: proxy?.auto_create_topics.value?,
        })),
    }
}

pub(super) fn coordinator(raw: file::Coordinator, dir: Option<PathBuf>, servers: &Servers) -> Option<CoordinatorConfig> {
    let Some(ensemble) = servers.ensemble() else {
        return Some(CoordinatorConfig::Embedded { dir: raw.embedded.value?.dir.value?.or(dir)? });
    };
    let raw = raw.zookeeper.value?;
    Some(CoordinatorConfig::ZooKeeper(ZooKeeperConfig { ensemble, digest: raw.digest.value?, acl: raw.acl.value? }))
}

fn check_acl(file: &File, report: &mut Report<'_>) {
    let Some(raw) = file.coordinator.value.as_ref().and_then(|coordinator| coordinator.zookeeper.value.as_ref()) else { return };
    let is_pair = |text: &Secret| text.expose().split_once(':').is_some_and(|(user, password)| !user.is_empty() && !password.is_empty());
    match &raw.digest.value {
        Some(None) if raw.acl.value == Some(AclMode::Creator) => {
            report.fault_at(&raw.acl.spot, "`creator` lets the owner of `digest` in, and there is none; give one, such as \"env:NAME\"");
        }
        Some(Some(digest)) if !is_pair(digest) => report.fault_at(&raw.digest.spot, "expected \"user:password\""),
        Some(_) | None => {}
    }
}

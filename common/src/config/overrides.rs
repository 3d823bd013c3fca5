//! Flags of the command line, which overrule the file.

use std::path::PathBuf;

use super::fault::{Report, Spot};
use super::file::{File, Group};
use super::leaf::url::Callback;
use super::leaf::{Leaf, address, server, url};
use super::role::Role;
use super::section::{Given, Nested};
use crate::ids::Topic;

/// Flags as they were written; what is wrong with them is reported together with the file's faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--listen`: overrules `proxy.listen`.
    pub listen: Option<String>,
    /// `--admin`: overrules the admin port that the process has, `proxy.admin` of a proxy and else `pusher.admin`.
    pub admin: Option<String>,
    /// `--brokers HOST:PORT,...`: overrules `queue.kafka.brokers`, and what groups without `brokers` would find
    /// registered. Says that the queue is Kafka.
    pub brokers: Option<String>,
    /// `--zookeepers HOST:PORT,.../chroot`: overrules the file's `zookeepers`, and its `zk_path` unless the flag has no path.
    pub zookeepers: Option<String>,
    /// `--data-dir`: overrules the folders of queue and coordinator.
    pub data_dir: Option<PathBuf>,
    /// `--push TOPIC=URL`, as (topic, URL): adds a group that starts at the oldest message. Topics
    /// with the same URL become one group.
    pub push: Vec<(String, String)>,
}

const PUSH: &str = "--push";
const BROKERS: &str = "--brokers";
const ZOOKEEPERS: &str = "--zookeepers";

impl Overrides {
    pub(super) fn apply(&self, role: Role, file: &mut File, report: &mut Report<'_>) {
        if let (Some(listen), Some(proxy)) = (address("--listen", self.listen.as_deref(), report), &mut file.proxy.value) {
            proxy.listen.overrule("--listen", listen);
        }
        let admin = match role {
            Role::Proxy => file.proxy.value.as_mut().map(|proxy| &mut proxy.admin),
            Role::Standalone | Role::Pusher => file.pusher.value.as_mut().map(|pusher| &mut pusher.admin),
        };
        if let (Some(address), Some(admin)) = (address("--admin", self.admin.as_deref(), report), admin) {
            admin.overrule("--admin", address);
        }
        self.apply_servers(file, report);
        if let Some(dir) = &self.data_dir {
            if let Some(queue) = file.queue.value.as_mut().and_then(|queue| queue.embedded.value.as_mut()) {
                queue.dir.overrule("--data-dir", dir.clone());
            }
            if let Some(coordinator) = file.coordinator.value.as_mut().and_then(|coordinator| coordinator.embedded.value.as_mut()) {
                coordinator.dir.overrule("--data-dir", Some(dir.clone()));
            }
        }
        if let Some(groups) = &mut file.consumer_groups.value {
            groups.extend(self.pushed(report).into_iter().map(|(callback, topics)| pushed_group(callback, topics)));
        }
    }

    fn apply_servers(&self, file: &mut File, report: &mut Report<'_>) {
        let listed = |name: &str, hosts: Vec<String>| vec![Given { value: Some(hosts), spot: Spot::flag(name) }];
        if let Some(brokers) = flag(BROKERS, self.brokers.as_deref(), server::brokers, report)
            && let Some(kafka) = file.queue.value.as_mut().and_then(|queue| queue.kafka.value.as_mut())
        {
            kafka.brokers.overrule(BROKERS, Some(listed(BROKERS, brokers)));
        }
        if let Some(ensemble) = flag(ZOOKEEPERS, self.zookeepers.as_deref(), server::ensemble, report) {
            file.zookeepers.overrule(ZOOKEEPERS, Some(listed(ZOOKEEPERS, server::hosts(&ensemble))));
            // A path that was left out is not taken for the root: every cursor would be out of sight.
            if self.zookeepers.as_deref().is_some_and(|text| text.contains('/')) {
                file.zk_path.overrule(ZOOKEEPERS, Some(ensemble.chroot().to_owned()));
            }
        }
    }

    fn pushed(&self, report: &mut Report<'_>) -> Vec<(Callback, Vec<Topic>)> {
        let mut groups: Vec<(Callback, Vec<Topic>)> = Vec::new();
        for (topic, url) in &self.push {
            let spot = Spot::flag(PUSH);
            let topic = Topic::new(topic).map_err(|error| report.fault_at(&spot, error.to_string()));
            let callback = url::parse(url).map_err(|why| report.fault_at(&spot, why));
            let (Ok(topic), Ok(callback)) = (topic, callback) else { continue };
            match groups.iter_mut().find(|(known, _)| known.written == callback.written) {
                Some((_, topics)) if topics.contains(&topic) => report.fault_at(&spot, format!("{topic}={url} is given twice")),
                Some((_, topics)) => topics.push(topic),
                None => groups.push((callback, vec![topic])),
            }
        }
        groups
    }
}

fn address(name: &str, text: Option<&str>, report: &mut Report<'_>) -> Option<std::net::SocketAddr> {
    flag(name, text, address::parse, report)
}

/// What a flag stands for. `None`: it is not there, or wrong, and that is reported.
fn flag<T>(name: &str, text: Option<&str>, parse: fn(&str) -> Result<T, String>, report: &mut Report<'_>) -> Option<T> {
    parse(text?).map_err(|why| report.fault_at(&Spot::flag(name), why)).ok()
}

fn pushed_group(callback: Callback, topics: Vec<Topic>) -> Given<Group> {
    let spot = Spot::flag(PUSH);
    let mut group = Nested::<Group>::new().absent(&spot).expect("a section without an object is all defaults");
    group.url.overrule(PUSH, callback);
    group.topics.overrule(PUSH, topics.into_iter().map(|topic| Given { value: Some(topic), spot: spot.clone() }).collect());
    group.initial_from_oldest.overrule(PUSH, true);
    Given { value: Some(group), spot }
}

//! From what was read to what the program uses: what a single field cannot say.

use std::collections::HashMap;

use self::servers::Servers;
use super::fault::{Report, Spot};
use super::file::{self, File};
use super::role::Role;
use super::section::Given;
use super::{Config, GroupConfig};
use crate::ids::GroupName;

mod backends;
mod dead_letters;
mod group;
mod ports;
mod servers;

/// `None`: something was refused, and is reported.
pub(super) fn config(role: Role, file: File, report: &mut Report<'_>) -> Option<Config> {
    let backends = backends::decide(role, &file, report);
    let servers = backends.map(|backends| Servers::new(role, backends, &file, report)).unwrap_or(Servers::None);
    let raw_proxy = file.proxy.value.as_ref();
    let folder = file.queue.value.as_ref().and_then(|queue| queue.embedded.value.as_ref()).and_then(|raw| raw.dir.value.clone());
    let queue = file.queue.value.and_then(|raw| backends::queue(raw, raw_proxy, &servers, report));
    let coordinator = file.coordinator.value.and_then(|raw| backends::coordinator(raw, folder, &servers));
    let proxy = file.proxy.value.and_then(|raw| ports::proxy(role, raw, report));
    let pusher = file.pusher.value.and_then(|raw| ports::pusher(role, raw, proxy.as_ref(), report));
    let groups = file.consumer_groups.value.and_then(|raw| groups(raw, &servers, report));
    Some(Config { role, queue: queue?, coordinator: coordinator?, proxy: proxy?, pusher: pusher?, groups: groups? })
}

fn groups(raw: Vec<Given<file::Group>>, servers: &Servers, report: &mut Report<'_>) -> Option<Vec<GroupConfig>> {
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
            group::config(entry, name.map(|(name, _)| name), servers, report)
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

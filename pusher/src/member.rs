//! This process as the rest of the fleet sees it.

use common::config::{GroupConfig, PusherConfig};
use common::coordinator::{Member, MemberGroup, assign};
use xxhash_rust::xxh3::xxh3_64;

/// The configuration's hash is of what is in force, defaults included, and of nothing secret.
pub(crate) fn this_process(config: &PusherConfig, groups: &[GroupConfig]) -> Member {
    let group = |group: &GroupConfig| {
        let config = format!("{:016x}", xxh3_64(format!("{group:?}").as_bytes()));
        (group.group.to_string(), MemberGroup { topics: group.topics.clone(), config })
    };
    Member {
        instance: config.instance.clone(),
        proto: assign::PROTO,
        boot: uuid::Uuid::new_v4(),
        host: gethostname::gethostname().to_string_lossy().into_owned(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        admin: config.admin.to_string(),
        groups: groups.iter().map(group).collect(),
    }
}

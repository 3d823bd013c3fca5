//! This process as the rest of a fleet sees it.

use std::net::SocketAddr;

use common::config::{GroupConfig, PusherConfig};
use common::coordinator::{Member, MemberGroup, assign};
use xxhash_rust::xxh3::xxh3_64;

use crate::group::Group;

/// Everything but the groups, which are different in each fleet.
#[derive(Clone)]
pub(crate) struct Me(Member);

impl Me {
    pub(crate) fn this_process(config: &PusherConfig) -> Self {
        let host = gethostname::gethostname().to_string_lossy().into_owned();
        Self(Member {
            instance: config.instance.clone(),
            proto: assign::PROTO,
            boot: uuid::Uuid::new_v4(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            admin: reachable(config.admin, &host),
            host,
            groups: std::collections::BTreeMap::new(),
            entered: 0,
        })
    }

    pub(crate) fn instance(&self) -> &str {
        &self.0.instance
    }

    pub(crate) fn serving<'a>(&self, groups: impl Iterator<Item = &'a Group>) -> Member {
        let groups = groups.map(|group| (group.config.group.to_string(), group.entry.clone()));
        Member { groups: groups.collect(), ..self.0.clone() }
    }
}

/// The configuration's hash is of what is in force, defaults included, and of nothing secret.
pub(crate) fn entry(group: &GroupConfig) -> MemberGroup {
    let config = format!("{:016x}", xxh3_64(format!("{group:?}").as_bytes()));
    MemberGroup { topics: group.topics.clone(), config }
}

/// An address that means "all of mine" here means nothing elsewhere.
fn reachable(admin: SocketAddr, host: &str) -> String {
    if admin.ip().is_unspecified() { format!("{host}:{}", admin.port()) } else { admin.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_told_an_address_that_they_can_reach() {
        assert_eq!(reachable("10.0.0.1:9091".parse().unwrap(), "h"), "10.0.0.1:9091");
        assert_eq!(reachable("[::]:9091".parse().unwrap(), "h"), "h:9091");
        assert_eq!(reachable("0.0.0.0:1".parse().unwrap(), "h"), "h:1");
    }
}

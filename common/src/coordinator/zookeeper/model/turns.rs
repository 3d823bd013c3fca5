//! How long partitions had no owner, and who may own one that another is to own.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::super::{assign, vacancy};
use super::super::member;
use super::super::wire::Op;
use super::tree::Tree;
use super::truth::at;
use super::world::SESSION;
use crate::coordinator::Member;

/// What the clocks of processes and servers differ by, at most.
const SLACK: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct Turns {
    vacant_since: BTreeMap<String, Duration>,
    /// Of each owner node, when its vacancies ended that were long enough for a turn to pass.
    passed: BTreeMap<String, Vec<Duration>>,
    /// Of fleet nodes.
    entered: BTreeMap<String, Duration>,
}

impl Turns {
    pub(super) fn after(&mut self, now: Duration, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Create { path, .. } if path.contains("/owners/t/") => {
                    let since = self.vacant_since.remove(path).unwrap_or_default();
                    if now - since + SLACK >= SESSION + vacancy::GRACE {
                        self.passed.entry(path.clone()).or_default().push(now);
                    }
                }
                Op::Delete { path } if path.contains("/owners/t/") => drop(self.vacant_since.insert(path.clone(), now)),
                Op::Create { path, .. } if path.starts_with("/mqgate/fleet/") => drop(self.entered.insert(path.clone(), now)),
                _ => {}
            }
        }
    }

    /// Its owner is not who is to own it, and that one's turn has never passed.
    pub(super) fn are_taken_early(&self, tree: &Tree, partition: usize, partitions: u32) -> bool {
        let path = format!("/consumers/g/owners/t/{partition}");
        let members: Vec<Member> = tree
            .children("/mqgate/fleet")
            .iter()
            .filter_map(|name| member::decode(name, &tree.get(&format!("/mqgate/fleet/{name}"))?.data).ok())
            .collect();
        let (Some(owner), owners) = (tree.get(&path), assign::owners(&members, &at(0).group, &at(0).topic, partitions)) else {
            return false;
        };
        let Some(first) = owners.get(partition).filter(|first| first.as_bytes() != owner.data) else { return false };
        let entered = self.entered.get(&format!("/mqgate/fleet/{first}")).copied().unwrap_or_default();
        !self.passed.get(&path).is_some_and(|passed| passed.iter().any(|at| *at + SLACK >= entered))
    }
}

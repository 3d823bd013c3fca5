//! The groups as they are configured now, for those who ask: the admin API, scrapes, `/readyz`.

use std::sync::Arc;

use common::ids::GroupPartition;
use common::queue::Queue;
use tokio::sync::watch;

use crate::directory::{Directory, Entry};
use crate::fleet::Report;
use crate::group::Group;

/// A cheap handle; replaced as a whole by every reload.
#[derive(Clone)]
pub(crate) struct Roster(pub(crate) watch::Receiver<Arc<[Listed]>>);

/// A group, and what its fleet says.
#[derive(Clone)]
pub(crate) struct Listed {
    pub(crate) group: Arc<Group>,
    pub(crate) report: watch::Receiver<Report>,
}

impl Roster {
    pub(crate) fn groups(&self) -> Arc<[Listed]> {
        self.0.borrow().clone()
    }

    pub(crate) fn find(&self, name: &str) -> Option<Listed> {
        self.0.borrow().iter().find(|listed| listed.group.config.group.as_str() == name).cloned()
    }

    /// What keeps this process from serving every group and using `queue`, each thing once.
    pub(crate) fn missing(&self, queue: &Arc<dyn Queue>) -> Vec<String> {
        let groups = self.groups();
        let mut missing = Vec::new();
        for listed in distinct(&groups, |one, other| Arc::ptr_eq(&one.group.coordinator, &other.group.coordinator)) {
            missing.extend(listed.report.borrow().missing.iter().cloned());
            missing.extend(listed.group.coordinator.missing());
        }
        for listed in distinct(&groups, |one, other| Arc::ptr_eq(&one.group.cluster, &other.group.cluster)) {
            missing.extend(listed.group.cluster.queue.missing());
        }
        if !groups.iter().any(|listed| Arc::ptr_eq(&listed.group.cluster.queue, queue)) {
            missing.extend(queue.missing());
        }
        missing
    }

    /// What is kept of every group, also of those that are configured no more and about to end.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let groups = self.groups();
        let fleets = distinct(&groups, |one, other| Arc::ptr_eq(&one.group.coordinator, &other.group.coordinator));
        fleets.flat_map(|listed| listed.directory().iter().cloned().collect::<Vec<_>>()).collect()
    }
}

impl Listed {
    fn directory(&self) -> Directory {
        self.report.borrow().directory.clone()
    }

    /// What of this group is kept here.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let ours = |at: &GroupPartition| at.group == self.group.config.group;
        self.directory().iter().filter(|entry| ours(&entry.at)).cloned().collect()
    }
}

/// The first of those that are the same.
fn distinct<'a>(all: &'a [Listed], same: impl Fn(&Listed, &Listed) -> bool + 'a) -> impl Iterator<Item = &'a Listed> + 'a {
    all.iter().enumerate().filter(move |(at, listed)| !all[..*at].iter().any(|before| same(before, listed))).map(|(_, listed)| listed)
}

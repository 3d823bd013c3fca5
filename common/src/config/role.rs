//! Which process reads the file.

use std::fmt;

use super::file::File;

/// Which process reads the file: it decides what holds where the file says nothing, which flags
/// overrule what, and what may not change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Everything in one process: embedded queue and cursors, unless the file says otherwise.
    Standalone,
    /// Taking messages in. Kafka, always.
    Proxy,
    /// Pushing messages out. Kafka, always; cursors in ZooKeeper unless the file says otherwise.
    Pusher,
}

impl Role {
    /// As the command line says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Proxy => "proxy",
            Self::Pusher => "pusher",
        }
    }

    /// For whom a file is that does not say so: a pusher's, if it speaks of Kafka or ZooKeeper.
    pub(super) fn of(file: &File) -> Self {
        let of_queue = file.queue.value.as_ref().map(|queue| (queue.embedded.is_given(), queue.kafka.is_given()));
        let zookeeper = file.coordinator.value.as_ref().is_some_and(|coordinator| coordinator.zookeeper.is_given());
        let groups = file.consumer_groups.value.iter().flatten().filter_map(|group| group.value.as_ref());
        let named = file.names_servers() || groups.into_iter().any(|group| group.names_servers());
        match of_queue {
            Some((true, _)) => Self::Standalone,
            Some((false, true)) => Self::Pusher,
            _ if zookeeper || named => Self::Pusher,
            _ => Self::Standalone,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

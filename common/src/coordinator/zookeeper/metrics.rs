//! What is counted of this process's sessions, all of them together.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Registered once in a process, and shared by all of its coordinators. Clones are the same metrics.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    sessions: Gauge,
    connected: Gauge,
    disconnections: Counter,
    sessions_lost: Counter,
    foreign_consumers: Family<GroupLabel, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabel {
    group: String,
}

impl Metrics {
    /// `registry` carries the prefix `mqgate`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self { sessions, connected, disconnections, sessions_lost, foreign_consumers } = metrics.clone();
        registry.register(
            "zookeeper_sessions",
            "Sessions with ZooKeeper that this process wants, one for each ensemble, and more where it owns too much for one",
            sessions,
        );
        registry.register("zookeeper_connected", "Of these, how many are connected", connected);
        registry.register("zookeeper_disconnections", "Connections to ZooKeeper that were lost", disconnections);
        registry.register("zookeeper_sessions_lost", "Sessions that ZooKeeper ended, and with them what they owned", sessions_lost);
        let help = "Consumers registered for the group that are not of this fleet: both deliver, and write the same cursors";
        registry.register("foreign_consumers", help, foreign_consumers);
        metrics
    }

    /// Of one more coordinator.
    pub(super) fn session(&self) -> Presence {
        self.sessions.inc();
        Presence { metrics: self.clone(), connected: false }
    }

    pub(super) fn foreign(&self, group: &str, consumers: usize) {
        self.foreign_consumers.get_or_create(&GroupLabel { group: group.to_owned() }).set(i64::try_from(consumers).unwrap_or(i64::MAX));
    }

    pub(super) fn forget_group(&self, group: &str) {
        self.foreign_consumers.remove(&GroupLabel { group: group.to_owned() });
    }
}

/// A coordinator's part of the sums, for as long as there is the coordinator.
pub(super) struct Presence {
    metrics: Metrics,
    connected: bool,
}

impl Presence {
    pub(super) fn connected(&mut self, connected: bool) {
        match (std::mem::replace(&mut self.connected, connected), connected) {
            (false, true) => {
                self.metrics.connected.inc();
            }
            (true, false) => {
                self.metrics.connected.dec();
                self.metrics.disconnections.inc();
            }
            (true, true) | (false, false) => {}
        }
    }

    pub(super) fn session_lost(&self) {
        self.metrics.sessions_lost.inc();
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.connected {
            self.metrics.connected.dec();
        }
        self.metrics.sessions.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_coordinators_are_counted_together() {
        let metrics = Metrics::register(&mut Registry::default());
        let (mut one, mut other) = (metrics.session(), metrics.session());
        one.connected(true);
        one.connected(true);
        other.connected(true);
        other.connected(false);
        assert_eq!((metrics.sessions.get(), metrics.connected.get(), metrics.disconnections.get()), (2, 1, 1));
        drop(one);
        assert_eq!((metrics.sessions.get(), metrics.connected.get(), metrics.disconnections.get()), (1, 0, 1));
    }
}

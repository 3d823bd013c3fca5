//! What a newcomer needs to know once everything is up.

use std::io::IsTerminal;
use std::net::SocketAddr;

use anstyle::Style;
use common::config::{Config, QueueConfig};
use tracing::info;

/// Where the two ports came to be, with those that were picked for port 0.
pub(super) struct Addresses {
    pub(super) listen: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// To the log for whoever collects it, and in one line to whoever sits before it.
pub(super) fn announce(at: &Addresses, config: &Config) {
    let groups = config.groups.len();
    match &config.queue {
        QueueConfig::Embedded(queue) => info!(listen = %at.listen, admin = %at.admin, data_dir = %queue.dir.display(), groups, "ready"),
        QueueConfig::Kafka(queue) => info!(listen = %at.listen, admin = %at.admin, brokers = %queue.brokers, groups, "ready"),
    }
    if std::io::stderr().is_terminal() {
        let bold = Style::new().bold();
        let topic = config.groups.first().and_then(|group| group.topics.first()).map_or("hello", |topic| topic.as_str());
        let Addresses { listen, admin } = at;
        anstream::eprintln!(
            "{bold}mqgate is up{bold:#}, POST messages to it: {bold}curl -d hi http://{listen}/topics/{topic}{bold:#}  (admin: http://{admin}, Ctrl-C stops it)"
        );
    }
}

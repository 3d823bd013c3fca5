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
    let QueueConfig::Embedded(queue) = &config.queue;
    let groups = config.groups.len();
    info!(listen = %at.listen, admin = %at.admin, data_dir = %queue.dir.display(), groups, "ready");
    if std::io::stderr().is_terminal() {
        let bold = Style::new().bold();
        let topic = config.groups.first().and_then(|group| group.topics.first()).map_or("TOPIC", |topic| topic.as_str());
        anstream::eprintln!(
            "{bold}mqgate is up{bold:#}: POST messages to {bold}http://{}/topics/{topic}{bold:#}, see http://{}/metrics and `mqgate groups`; Ctrl-C stops it",
            at.listen,
            at.admin
        );
    }
}

//! What a newcomer needs to know once everything is up.

use std::io::IsTerminal;
use std::net::SocketAddr;

use anstyle::Style;
use common::config::{Config, QueueConfig, Role};
use tracing::info;

/// Where the ports came to be, with those that were picked for port 0.
pub(super) struct Addresses {
    /// `None`: no messages are taken in.
    pub(super) listen: Option<SocketAddr>,
    pub(super) admin: SocketAddr,
}

/// To the log for whoever collects it, and in one line to whoever sits before it.
pub(super) fn announce(at: &Addresses, config: &Config) {
    let listen = at.listen.map(tracing::field::display);
    let data_dir = match &config.queue {
        QueueConfig::Embedded(queue) => Some(tracing::field::display(queue.dir.display())),
        QueueConfig::Kafka(_) => None,
    };
    let groups = (config.role != Role::Proxy).then_some(config.groups.len());
    info!(listen, admin = %at.admin, data_dir, groups, "ready");
    if std::io::stderr().is_terminal() {
        let bold = Style::new().bold();
        let admin = at.admin;
        match at.listen {
            Some(listen) => {
                let topic = config.groups.first().and_then(|group| group.topics.first()).map_or("hello", |topic| topic.as_str());
                anstream::eprintln!(
                    "{bold}mqgate is up{bold:#}, POST messages to it: {bold}curl -d hi http://{listen}/topics/{topic}{bold:#}  (admin: http://{admin}, Ctrl-C stops it)"
                );
            }
            None => anstream::eprintln!(
                "{bold}mqgate pushes{bold:#}: {bold}mqgate groups --admin {admin}{bold:#} says how far  (Ctrl-C stops it)"
            ),
        }
    }
}

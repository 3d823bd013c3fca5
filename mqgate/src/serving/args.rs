//! The command lines of the processes that serve.

use std::path::PathBuf;

use common::config::{Overrides, Role};

use super::Start;

/// Run the whole gateway in this process, on an embedded queue
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate standalone                                            no configuration needed: POST to 127.0.0.1:9090
  mqgate standalone --push orders=http://127.0.0.1:9099/hook   and push what is POSTed to the topic orders
  mqgate standalone -c mqgate.json --data-dir /var/lib/mqgate  groups and limits from a file

SIGTERM and Ctrl-C drain: requests and attempts under way may end, cursors are stored. A second one
stops at once. SIGHUP reads the file again and applies its groups. RUST_LOG=debug says more.")]
pub(crate) struct StandaloneArgs {
    /// The configuration; `mqgate check FILE` says what is wrong with one
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where producers POST [default: 127.0.0.1:9090]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Where metrics, health and the groups are read [default: 127.0.0.1:9091]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    /// Where messages and cursors are kept [default: ./mqgate-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Push a topic's messages to a URL, from the oldest on; may be repeated
    #[arg(long, value_name = "TOPIC=URL", value_parser = topic_and_url)]
    push: Vec<(String, String)>,
    #[command(flatten)]
    cluster: Cluster,
}

/// Take messages in by HTTP and write them to Kafka
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate proxy -c mqgate.json                         brokers and limits from a file
  mqgate proxy --brokers 10.0.0.1:9092,10.0.0.2:9092  no file needed
  mqgate proxy --zookeepers 10.0.0.9:2181             brokers as Kafka has registered them in ZooKeeper

Run as many as you like behind a load balancer: a proxy keeps nothing. A 200 means that every replica
in sync has the message. SIGTERM and Ctrl-C answer what is under way, then end.")]
pub(crate) struct ProxyArgs {
    /// The configuration; `mqgate check FILE` says what is wrong with one
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where producers POST [default: 127.0.0.1:9090]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Where metrics and health are read [default: 127.0.0.1:9089]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
}

/// Push messages out of Kafka to the groups' URLs
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate pusher -c mqgate.json                        groups from a file; cursors in ZooKeeper
  mqgate pusher -c mqgate.json --admin 127.0.0.1:9191 a second one on the same machine shares the work
  mqgate pusher -c mqgate.json --data-dir ./cursors   one pusher, cursors in a folder, no ZooKeeper

SIGTERM and Ctrl-C drain: attempts under way may end, cursors are stored, partitions are handed over.
SIGHUP reads the file again and applies its groups; what cannot change without a restart is refused.")]
pub(crate) struct PusherArgs {
    /// The configuration; `mqgate check FILE` says what is wrong with one
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where metrics, health and the groups are read [default: 127.0.0.1:9091]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    /// Keep cursors in this folder instead of ZooKeeper: for one pusher
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Push a topic's messages to a URL, from the oldest on; may be repeated
    #[arg(long, value_name = "TOPIC=URL", value_parser = topic_and_url)]
    push: Vec<(String, String)>,
    #[command(flatten)]
    cluster: Cluster,
}

/// Where Kafka and `ZooKeeper` are.
#[derive(clap::Args, Debug)]
struct Cluster {
    /// Kafka's brokers, instead of the file's
    #[arg(long, value_name = "HOST:PORT,…")]
    brokers: Option<String>,
    /// ZooKeeper's servers, with the path under which everything lies, instead of the file's
    #[arg(long, value_name = "HOST:PORT,…[/PATH]")]
    zookeepers: Option<String>,
}

/// What is wrong with either is reported together with the file's faults.
fn topic_and_url(text: &str) -> Result<(String, String), String> {
    let (topic, url) = text.split_once('=').ok_or("a topic and a URL are asked for, such as orders=http://127.0.0.1:9099/")?;
    Ok((topic.to_owned(), url.to_owned()))
}

impl From<StandaloneArgs> for Start {
    fn from(args: StandaloneArgs) -> Self {
        let StandaloneArgs { config, listen, admin, data_dir, push, cluster: Cluster { brokers, zookeepers } } = args;
        Self { role: Role::Standalone, file: config, overrides: Overrides { listen, admin, data_dir, push, brokers, zookeepers } }
    }
}

impl From<ProxyArgs> for Start {
    fn from(args: ProxyArgs) -> Self {
        let ProxyArgs { config, listen, admin, cluster: Cluster { brokers, zookeepers } } = args;
        Self { role: Role::Proxy, file: config, overrides: Overrides { listen, admin, brokers, zookeepers, ..Overrides::default() } }
    }
}

impl From<PusherArgs> for Start {
    fn from(args: PusherArgs) -> Self {
        let PusherArgs { config, admin, data_dir, push, cluster: Cluster { brokers, zookeepers } } = args;
        Self { role: Role::Pusher, file: config, overrides: Overrides { admin, data_dir, push, brokers, zookeepers, listen: None } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_split_at_the_first_equals_sign() {
        assert_eq!(topic_and_url("t=http://a/?b=c"), Ok(("t".into(), "http://a/?b=c".into())));
        assert!(topic_and_url("t").is_err());
    }
}

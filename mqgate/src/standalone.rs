//! `mqgate standalone`: proxy, embedded queue and pusher in one process.

use std::path::{Path, PathBuf};

use common::config::{self, Config, Loaded, Overrides, Role};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::failure::Failure;
use crate::{later, output};
use gateway::Gateway;
use signals::Signals;

mod admin_port;
mod backends;
mod banner;
mod gateway;
mod signals;

/// Run the whole gateway in this process, on an embedded queue
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate standalone                                            no configuration needed: POST to 127.0.0.1:9090
  mqgate standalone --push orders=http://127.0.0.1:9099/hook   and push what is POSTed to the topic orders
  mqgate standalone -c mqgate.json --data-dir /var/lib/mqgate  groups and limits from a file

SIGTERM and Ctrl-C drain: requests and attempts under way may end, cursors are stored. A second one
stops at once. RUST_LOG=debug says more.")]
pub(crate) struct Args {
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
    #[arg(long, hide = true, num_args = 0..)]
    brokers: Option<Vec<String>>,
    #[arg(long, hide = true, num_args = 0..)]
    zookeepers: Option<Vec<String>>,
}

/// What is wrong with either is reported together with the file's faults.
fn topic_and_url(text: &str) -> Result<(String, String), String> {
    let (topic, url) = text.split_once('=').ok_or("a topic and a URL are asked for, such as orders=http://127.0.0.1:9099/")?;
    Ok((topic.to_owned(), url.to_owned()))
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if args.brokers.is_some() {
        return Err(later::flag_needs("--brokers", "the Kafka queue"));
    }
    if args.zookeepers.is_some() {
        return Err(later::flag_needs("--zookeepers", "ZooKeeper"));
    }
    let overrides = Overrides { listen: args.listen, admin: args.admin, data_dir: args.data_dir, push: args.push, ..Overrides::default() };
    let loaded =
        load(args.config.as_deref(), &overrides).map_err(|faults| Failure::Configuration(faults.render(output::colour_of_stderr())))?;
    common::telemetry::init_logs();
    say(args.config.as_deref(), &loaded);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(&loaded.config))
}

fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Loaded, config::Faults> {
    match file {
        Some(file) => config::load(Role::Standalone, file, overrides),
        None => config::defaults(Role::Standalone, overrides),
    }
}

fn say(file: Option<&Path>, loaded: &Loaded) {
    for warning in &loaded.warnings {
        warn!("{}", warning.render(config::Colour::Plain).trim_end());
    }
    let file = file.map_or_else(|| "none: defaults and flags".to_owned(), |file| file.display().to_string());
    info!(version = env!("CARGO_PKG_VERSION"), configuration = file, "starting");
    info!("effective configuration: {}", loaded.config.effective_in_one_line());
}

async fn serve(config: &Config) -> Result<(), Failure> {
    let drain = CancellationToken::new();
    let signals = tokio::spawn(Signals::take()?.obey(drain.clone()));
    let gateway = Gateway::start(config, &drain).await?;
    banner::announce(&gateway.addresses(), config);
    let ended = gateway.run(&drain).await;
    signals.abort();
    ended
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

//! What is asked for, one workload after the other.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::goals::{self, Goal};
use crate::stage::{Backend, Servers};
use crate::table::{self, Row};
use crate::{cursors, growth, peers, produce, push, restart, whole_way};

/// Until Java has compiled what a broker does for each message.
const WARM_UP: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// POST: single messages over 1, 64 and 256 connections and over a new connection each, and batches of 100.
    Produce,
    /// A backlog drained into an instant and a 10 ms receiver, with even and Zipf-distributed keys, and with failing keys.
    Push,
    /// A pusher that is killed, or told to stop, in the middle of a drain: how much is delivered again.
    Restart,
    /// From the POST's answer to the webhook, at 20, 50 and 80 % of capacity.
    WholeWay,
    /// Cursors of 10,000 partitions, stored in ZooKeeper one transaction after the other.
    Cursors,
    /// How costs grow with groups, partitions, keys and backlog.
    Growth,
}

#[derive(Args)]
pub(crate) struct Options {
    /// What to measure [default: produce push restart whole-way cursors].
    #[arg(value_enum)]
    workloads: Vec<Workload>,
    /// On which queue [default: both].
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// How long each load of `produce` and `whole-way` lasts.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How many messages of 1 KiB `push` and `restart` drain.
    #[arg(long, value_name = "COUNT", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(10_000..=10_000_000))]
    pub(crate) messages: u64,
    /// The large sizes of `growth` too: 5,000 partitions, 1,000,000 keys, a backlog of 10 GB.
    #[arg(long)]
    pub(crate) long: bool,
    /// Of the loads of `produce` and `restart` and the tables of `growth`, those alone whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    only: String,
    /// A property of mqgate's Kafka client, to see what it changes. May be given again.
    #[arg(long, value_name = "NAME=VALUE", value_parser = property)]
    property: Vec<(String, String)>,
    /// Measures the programs that `DIR/peers.json` lists too, under the loads of `produce` and `push` on Kafka.
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
}

impl Options {
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    pub(crate) fn asks_for(&self, name: &str) -> bool {
        name.contains(&self.only)
    }

    fn backends(&self) -> Vec<Backend> {
        self.backend.map_or_else(|| vec![Backend::Embedded, Backend::Kafka], |one| vec![one])
    }

    fn workloads(&self) -> &[Workload] {
        const USUAL: [Workload; 5] = [Workload::Produce, Workload::Push, Workload::Restart, Workload::WholeWay, Workload::Cursors];
        if self.workloads.is_empty() { &USUAL } else { &self.workloads }
    }
}

fn property(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Rows and goals so far.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
    pub(crate) goals: Vec<Goal>,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut results = Results::default();
    for backend in options.backends() {
        eprintln!("starting what {} needs …", backend.name());
        let servers = Servers::start(backend, &options.property).await;
        if servers.cluster().is_some() {
            eprintln!("warming Kafka up …");
            whole_way::warm_up(&servers, WARM_UP).await?;
        }
        for workload in options.workloads() {
            eprintln!("{}: {} …", backend.name(), workload.to_possible_value().expect("none is skipped").get_name());
            match workload {
                Workload::Produce => produce::run(options, backend, &servers, &mut results).await?,
                Workload::Push => push::run(options, backend, &servers, &mut results).await?,
                Workload::Restart => restart::run(options, backend, &servers, &mut results).await?,
                Workload::WholeWay => whole_way::run(options, backend, &servers, &mut results).await?,
                Workload::Cursors => cursors::run(options, &servers, &mut results).await?,
                Workload::Growth => growth::run(options, backend, &servers).await?,
            }
            match (&options.peers, workload) {
                (Some(folder), Workload::Produce) => peers::produce(options, folder, &servers, &mut results).await?,
                (Some(folder), Workload::Push) => peers::push(options, folder, &servers, &mut results).await?,
                _ => {}
            }
        }
    }
    println!();
    if !results.rows.is_empty() {
        table::figures(results.rows);
    }
    if !results.goals.is_empty() {
        goals::print(results.goals);
    }
    Ok(())
}

//! What mqgate costs, beside what the machine allows, in one run: `cargo run --release -p benchmarks -- --help`.
#![allow(clippy::unwrap_used)]

use clap::{Parser, Subcommand};

use crate::run::Options;

mod bare;
mod child;
mod clock;
mod cursors;
mod goals;
mod growth;
mod keys;
mod load;
mod message;
mod peers;
mod produce;
mod push;
mod receiver;
mod restart;
mod run;
mod stage;
mod table;
mod usage;
mod whole_way;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures mqgate on this machine, beside bare servers and clients in the same run.
///
/// Starts all that it needs (Kafka and ZooKeeper too) on 127.0.0.1, and checks what it measures: every message accounted for, the
/// order of each key kept. Ratios within one run are the result; rates are for orientation. Run it on a quiet machine: the column
/// ELSEWHERE says how many cores were busy with something else.
#[derive(Parser)]
#[command(
    name = "benchmarks",
    after_help = "\
Examples:
  benchmarks                                   everything but the growth tables, about 10 minutes
  benchmarks produce push --backend embedded   two workloads, without Kafka
  benchmarks growth --long                     how costs grow, up to a backlog of 10 GB
  benchmarks produce push --backend kafka --peers DIR
                                               and the programs that DIR/peers.json lists (docs/performance.md)
  MQGATE_BIN=old/mqgate benchmarks produce     another binary than target/release/mqgate"
)]
struct Command {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    options: Options,
}

/// Processes of their own, whose processor time is counted apart.
#[derive(Subcommand)]
#[command(hide = true)]
enum Part {
    /// Answers every request with `ok`.
    #[command(hide = true)]
    BareServer,
    /// Answers deliveries, and checks them.
    #[command(hide = true)]
    Receiver,
    /// POSTs with the bare HTTP client.
    #[command(hide = true)]
    BareClient { url: String, messages: u32, in_flight: u32 },
    /// Writes to Kafka with librdkafka alone.
    #[command(hide = true)]
    BareProducer { brokers: String, topic: String, messages: u32 },
    /// Stores cursors in `ZooKeeper`, as fast as it goes.
    #[command(hide = true)]
    StoreCursors { servers: String, seconds: u64 },
}

fn main() -> anyhow::Result<()> {
    let command = Command::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match command.part {
            None => run::run(&command.options).await,
            Some(Part::BareServer) => bare::server::serve().await,
            Some(Part::Receiver) => receiver::serve::serve().await,
            Some(Part::BareClient { url, messages, in_flight }) => bare::client::send(&url, messages, in_flight).await,
            Some(Part::StoreCursors { servers, seconds }) => cursors::store(&servers, seconds).await,
            Some(Part::BareProducer { brokers, topic, messages }) => bare::producer::write(&brokers, &topic, messages),
        }
    })
}

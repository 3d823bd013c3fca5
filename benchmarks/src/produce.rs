//! POST, answered after the acknowledgement.

use crate::child::Own;
use crate::goals::Goal;
use crate::keys::Spread;
use crate::load::{Connecting, Pattern};
use crate::run::{Options, Results};
use crate::stage::{Backend, Servers};
use crate::table::Row;
use crate::usage::Meter;

use self::pair::{Measured, PARTITIONS, Pair};

mod pair;

/// Messages that librdkafka writes alone.
const BULK: u64 = 500_000;

pub(crate) async fn run(options: &Options, backend: Backend, servers: &Servers, results: &mut Results) -> anyhow::Result<()> {
    let pair = Pair::start(backend, servers).await?;
    let usual =
        Pattern { connections: 64, connecting: Connecting::Once, spread: Spread::Uniform, records: 1, duration: options.duration() };
    let cases: [(&str, Pattern, Goals); 6] = [
        ("POST, 64 connections", usual, of_many),
        ("POST, 64 connections, Zipf", Pattern { spread: Spread::Zipf, ..usual }, of_many),
        ("POST, 1 connection", Pattern { connections: 1, ..usual }, of_one),
        ("POST, 256 connections", Pattern { connections: 256, ..usual }, of_very_many),
        ("POST, a new connection each, 64", Pattern { connecting: Connecting::ForEachRequest, ..usual }, of_new_ones),
        ("batches of 100, 16 connections", Pattern { connections: 16, records: 100, ..usual }, of_batches),
    ];
    for (name, pattern, goals) in cases.into_iter().filter(|(name, ..)| options.asks_for(name)) {
        let (bare, ours) = pair.measure(name, pattern, results).await?;
        results.goals.extend(goals(backend, &bare, &ours).into_iter().map(|goal| goal.of(&format!("{} {name}", backend.name()))));
    }
    if servers.cluster().is_some() && options.asks_for("librdkafka") {
        librdkafka(servers, results).await?;
    }
    Ok(())
}

/// What is to be reached, given what the bare server and mqgate reached.
type Goals = fn(Backend, &Measured, &Measured) -> Vec<Goal>;

fn beside(bare: &Measured, ours: &Measured) -> f64 {
    ours.answered.per_second() / bare.answered.per_second()
}

fn of_many(backend: Backend, bare: &Measured, ours: &Measured) -> Vec<Goal> {
    match backend {
        Backend::Embedded => vec![
            Goal::at_least("rate beside the bare server's", beside(bare, ours), 0.52),
            Goal::at_most("CPU s per 100k", ours.cpu(), 2.0),
            Goal::at_most("p99 in ms", ours.ms(0.99), 5.0),
        ],
        Backend::Kafka => {
            vec![Goal::at_most("CPU s per 100k", ours.cpu(), 2.5), Goal::at_most("p99 in ms", ours.ms(0.99), 5.3)]
        }
    }
}

fn of_one(backend: Backend, bare: &Measured, ours: &Measured) -> Vec<Goal> {
    match backend {
        Backend::Embedded => vec![Goal::at_most("p50 in ms", ours.ms(0.5), 0.5)],
        Backend::Kafka => vec![
            Goal::at_most("p50 over the bare server's, ms", ours.ms(0.5) - bare.ms(0.5), 0.25),
            Goal::at_most("p99 in ms", ours.ms(0.99), 1.0),
        ],
    }
}

fn of_very_many(backend: Backend, bare: &Measured, ours: &Measured) -> Vec<Goal> {
    match backend {
        Backend::Embedded => Vec::new(),
        Backend::Kafka => {
            vec![Goal::at_least("rate beside the bare server's", beside(bare, ours), 0.6), Goal::at_most("CPU s per 100k", ours.cpu(), 2.0)]
        }
    }
}

fn of_new_ones(_: Backend, bare: &Measured, ours: &Measured) -> Vec<Goal> {
    vec![Goal::at_least("rate beside the bare server's", beside(bare, ours), 0.8), Goal::at_most("p99 in ms", ours.ms(0.99), 10.0)]
}

/// The last case: its peak is that of them all.
fn of_batches(backend: Backend, _: &Measured, ours: &Measured) -> Vec<Goal> {
    let memory = match backend {
        Backend::Embedded => 100.0,
        Backend::Kafka => 60.0,
    };
    vec![
        Goal::at_least("records a second", ours.answered.per_second(), 200_000.0),
        Goal::at_most("CPU s per 100k", ours.cpu(), 0.6),
        Goal::at_most("peak memory in MiB", ours.usage.peak_mib, memory),
    ]
}

/// The limit that Kafka sets: in bulk, and one after the other.
async fn librdkafka(servers: &Servers, results: &mut Results) -> anyhow::Result<()> {
    let cluster = servers.cluster().expect("asked of Kafka alone");
    let topic = cluster.topic("alone", i32::try_from(PARTITIONS)?).await;
    let mut own = Own::start(&["bare-producer", &cluster.kafka.brokers(), &topic, &BULK.to_string()])?;
    let meter = Meter::start(own.pid())?.since_birth();
    let per_second: f64 = own.line()?.parse()?;
    let usage = meter.read()?;
    results.rows.push(Row::new("Kafka bulk", "librdkafka alone").rate(per_second).used(&usage, BULK));
    let line = own.line()?;
    let (p50_us, p99_us) = line.split_once(' ').expect("two numbers");
    let row = Row::new("Kafka one after the other", "librdkafka alone");
    results.rows.push(row.latency([p50_us.parse::<f64>()? / 1_000.0, p99_us.parse::<f64>()? / 1_000.0].into()));
    Ok(())
}

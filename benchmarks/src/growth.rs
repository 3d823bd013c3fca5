//! How costs grow with what exists, and with what moves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use integration_tests::gateway::Gateway;
use serde_json::{Value, json};

use crate::keys::{Labels, Spread};
use crate::load::fill;
use crate::message::SIZE_BYTES;
use crate::receiver::{Manner, Receiver};
use crate::run::Options;
use crate::stage::{Backend, Servers, Stage};
use crate::table;
use crate::usage::{Meter, cpu_s_of, size};

const PARTITIONS: u32 = 8;
/// To settle down after a start, and as long again to be measured idle.
const IDLE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(300);
const MESSAGES: u64 = 100_000;
/// For each group at least, so that what is done once for each, such as connecting, does not count.
const FEW: u64 = 10_000;

/// One point: what there is, and what moves.
#[derive(Clone, Copy)]
struct Point {
    groups: u32,
    partitions: u32,
    keys: u32,
    messages: u64,
    size_bytes: usize,
    /// Whether every group gets the messages, or the first alone.
    fan_out: bool,
    /// Attempts under way of each group.
    workers: u32,
}

const BASE: Point =
    Point { groups: 1, partitions: PARTITIONS, keys: 10_000, messages: MESSAGES, size_bytes: SIZE_BYTES, fan_out: true, workers: 100 };

pub(crate) async fn run(options: &Options, backend: Backend, servers: &Servers) -> anyhow::Result<()> {
    let up_to = |all: &[u32], usual: usize| if options.long { all.to_vec() } else { all[..usual].to_vec() };
    // An embedded topic has 1,024 at most.
    let can_be = |partitions: &u32| backend == Backend::Kafka || *partitions <= 1_024;
    let partitions = up_to(&[1, 100, 1_000, 5_000], 3).into_iter().filter(can_be).collect();
    let growing = [
        ("idle groups", up_to(&[1, 10, 100, 1_000], 4), (|n| Point { groups: n, fan_out: false, ..BASE }) as fn(u32) -> Point),
        ("partitions", partitions, |n| Point { partitions: n, ..BASE }),
        ("keys", up_to(&[10, 1_000, 100_000, 1_000_000], 3), |n| Point { keys: n, messages: MESSAGES.max(n.into()), ..BASE }),
        ("backlog, MB", up_to(&[1, 10, 100, 1_000, 10_000], 4), of_backlog),
        ("groups on one topic", up_to(&[1, 10, 100], 3), of_groups),
        ("worker_num", up_to(&[10, 100, 1_000, 10_000], 3), |n| Point { workers: n, ..BASE }),
    ];
    for (what, sizes, point) in growing.into_iter().filter(|(what, ..)| options.asks_for(what)) {
        let mut rows = Vec::new();
        for size in sizes {
            eprintln!("{}: {size} {what} …", backend.name());
            rows.push(measure(size, point(size), servers).await?);
        }
        let title = format!("{}: {}", backend.name(), what.to_uppercase());
        table::print(&[&title, "IDLE CPU %", "IDLE MIB", "THREADS", "FILES", "DELIVERIES/S", "CPU S/100K", "PEAK MIB"], 0, rows);
    }
    Ok(())
}

/// With as many attempts under way in all: what these cost is another table.
fn of_groups(groups: u32) -> Point {
    Point { groups, messages: (MESSAGES / u64::from(groups)).max(FEW), workers: BASE.workers / groups, ..BASE }
}

/// In messages of 10 KB, so that a large one is written and drained in minutes.
fn of_backlog(megabytes: u32) -> Point {
    Point { size_bytes: 10_000, messages: u64::from(megabytes) * 100, ..BASE }
}

/// Asked seldom: of thousands of partitions the answer is large.
async fn until_served(pusher: &Gateway, group: &str, partitions: u32) -> anyhow::Result<()> {
    let began = Instant::now();
    while !pusher.is_served(group, partitions as usize).await {
        anyhow::ensure!(began.elapsed() < PATIENCE, "not all {partitions} partitions of {group} are served");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

async fn measure(size_of_it: u32, point: Point, servers: &Servers) -> anyhow::Result<Vec<String>> {
    let receiver = Receiver::start()?;
    // Every group has a receiver's log of its own, or repeats would be counted.
    receiver.set(Manner::default()).await?;
    let mut stage = Stage::new(servers, point.partitions).await?;
    let policy = |url: String| BTreeMap::from([("worker_num", json!(point.workers)), ("timeout", json!("30s")), ("url", json!(url))]);
    let groups = (0..point.groups).map(|n| {
        let url = if n == 0 || point.fan_out { format!("{}?{n}", receiver.url()) } else { "http://127.0.0.1:9/".to_owned() };
        stage.group(&format!("bench-{n}"), &url, &policy(url.clone()))
    });
    let mut groups: Vec<Value> = groups.collect();
    if !point.fan_out {
        // Idle ones have a topic of their own, with nothing in it.
        groups.iter_mut().skip(1).for_each(|group| group["topics"] = json!(["idle"]));
    }
    stage.push(groups).await;
    let last = if point.fan_out { point.groups - 1 } else { 0 };
    until_served(stage.pusher(), &format!("bench-{last}"), point.partitions).await?;
    let pid = stage.pusher_pid();
    tokio::time::sleep(IDLE).await;
    let before = cpu_s_of(pid)?;
    tokio::time::sleep(IDLE).await;
    let idle = (cpu_s_of(pid)? - before) / IDLE.as_secs_f64() * 100.0;
    let ((idle_mib, threads), files) = (size(pid)?, stage.pusher().open_files());
    let meter = Meter::start(pid)?;
    fill(&stage.target, Labels::new(Spread::Even, point.keys), point.messages, point.size_bytes).await?;
    let receivers = if point.fan_out { u64::from(point.groups) } else { 1 };
    let deliveries = point.messages * receivers;
    let seen = receiver.until_all(deliveries, PATIENCE).await?;
    let usage = meter.read()?;
    anyhow::ensure!(seen.done == point.messages && seen.all() >= deliveries, "{deliveries} deliveries were expected: {seen:?}");
    if seen.all() > deliveries {
        let pusher = stage.pusher();
        let (all, done) =
            (pusher.metric("mqgate_attempts_total", &[]).await, pusher.metric("mqgate_attempts_total", &[("outcome", "done")]).await);
        let free = pusher.metric("mqgate_free_retries_total", &[]).await;
        eprintln!(
            "{} came again: {} of {all} attempts failed, and {free} were made over a new connection",
            seen.all() - deliveries,
            all - done
        );
    }
    Ok(vec![
        size_of_it.to_string(),
        format!("{idle:.1}"),
        format!("{idle_mib:.0}"),
        threads.to_string(),
        files.to_string(),
        format!("{:.0}", seen.all() as f64 / seen.span().as_secs_f64()),
        format!("{:.2}", usage.cpu_s_per_100k(deliveries)),
        format!("{:.0}", usage.peak_mib),
    ])
}

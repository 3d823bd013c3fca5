//! How many cursors a second one `ZooKeeper` server takes from one pusher.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use common::coordinator::zookeeper::{AclMode, Ensemble, Metrics, Options as ZooKeeperOptions};
use common::coordinator::{Birth, Commit, Coordinator, Log, Member, MemberGroup, Progress, ZooKeeperCoordinator, assign};
use common::ids::{GroupName, GroupPartition, Offset, Partition, Topic};
use futures_util::{StreamExt, TryStreamExt, stream};
use hdrhistogram::Histogram;
use uuid::Uuid;

use crate::child::Own;
use crate::goals::Goal;
use crate::run::{Options, Results};
use crate::stage::Servers;
use crate::table::Row;
use crate::usage::Meter;

const PARTITIONS: u32 = 10_000;
/// Claims under way, and entries of a transaction, as of a pusher.
const CLAIMS: usize = 256;
const ENTRIES: usize = 64;
const FAR: Offset = Offset(1_000_000_000);

pub(crate) async fn run(options: &Options, servers: &Servers, results: &mut Results) -> anyhow::Result<()> {
    let Some(cluster) = servers.cluster() else { return Ok(()) };
    let seconds = options.duration().as_secs().to_string();
    let own = Own::start(&["store-cursors", &format!("{}{}", cluster.zookeeper(), cluster.path("")), &seconds])?;
    // Once all partitions are claimed.
    let (_, own) = own.next_line().await?;
    let meter = Meter::start(own.pid())?;
    let (line, _own) = own.next_line().await?;
    let usage = meter.read()?;
    let numbers: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let [cursors, per_second, p50_us, p99_us, p999_us] = numbers[..] else { anyhow::bail!("{line}") };
    let row = Row::new(format!("cursors of {PARTITIONS} partitions, in transactions of {ENTRIES}"), "mqgate's coordinator, ZooKeeper");
    let latency_ms = [p50_us, p99_us, p999_us].map(|us| us / 1_000.0);
    results.rows.push(row.rate(per_second).latency(latency_ms.into()).used(&usage, cursors as u64));
    results.goals.push(Goal::at_least("cursors a second through one ZooKeeper server", per_second, 5_000.0));
    Ok(())
}

/// Claims all partitions and says so; then moves each cursor again and again, one transaction after the other, as the committer of a
/// pusher does. Says how many moved, how many a second, and how long a transaction took: median, 99th and 99.9th percentile, in µs.
pub(crate) async fn store(servers: &str, seconds: u64) -> anyhow::Result<()> {
    let options = ZooKeeperOptions {
        ensemble: Ensemble::parse(servers)?,
        session_timeout: Duration::from_secs(15),
        digest: None,
        acl: AclMode::Open,
    };
    let coordinator = ZooKeeperCoordinator::open(options, &Metrics::default());
    let (group, topic) = (GroupName::new("bench")?, Topic::new("bench")?);
    coordinator.join(member(&group, &topic)).await?;
    coordinator.birth(&group, &topic, Birth { topic_id: None, start: vec![Offset(0); PARTITIONS as usize] }, &[]).await?;
    let log = Log { topic_id: None, first: Offset(0), end: FAR, past_end: None };
    let claims = stream::iter(0..PARTITIONS).map(|number| {
        let at = GroupPartition { group: group.clone(), topic: topic.clone(), partition: Partition(number) };
        let coordinator = &coordinator;
        async move { coordinator.claim(&at, log).await.map(|claim| Commit { at, epoch: claim.epoch, progress: Progress::default() }) }
    });
    let mut commits: Vec<Commit> = claims.buffered(CLAIMS).try_collect().await?;
    println!("all claimed");
    let (mut moved, mut latency_us, began) = (0_u64, Histogram::<u64>::new(3)?, Instant::now());
    for round in 1.. {
        for some in commits.chunks_mut(ENTRIES) {
            some.iter_mut().for_each(|commit| commit.progress.cursor = Offset(round));
            let before = Instant::now();
            for stored in coordinator.commit(some).await {
                stored?;
                moved += 1;
            }
            latency_us.record(u64::try_from(before.elapsed().as_micros())?)?;
        }
        if began.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    let percentiles = [0.5, 0.99, 0.999].map(|q| latency_us.value_at_quantile(q).to_string()).join(" ");
    println!("{moved} {} {percentiles}", moved as f64 / began.elapsed().as_secs_f64());
    std::future::pending().await
}

fn member(group: &GroupName, topic: &Topic) -> Member {
    let served = MemberGroup { topics: vec![topic.clone()], config: "c0ffee".into() };
    let groups = BTreeMap::from([(group.to_string(), served)]);
    let (host, version, admin) = ("localhost".into(), env!("CARGO_PKG_VERSION").into(), "127.0.0.1:9091".into());
    Member { instance: "bench".into(), proto: assign::PROTO, boot: Uuid::new_v4(), host, pid: 1, version, admin, groups, entered: 0 }
}

//! How far the owned partitions are behind, read when somebody asks: nothing is counted per message
//! and nothing wakes an idle process.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use common::ids::{GroupName, GroupPartition, Offset, Partition, Topic};
use engine::task::Status;
use futures_util::StreamExt;
use futures_util::stream;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::cluster::Cluster;
use crate::directory::Entry;
use crate::group::Group;
use crate::roster::Roster;

/// Questions to the queue and to partition loops that are open at one time.
const CONCURRENCY: usize = 64;
/// How long answers are waited for, of loops and of the queue; what has not answered is left out.
const TIMEOUT: Duration = Duration::from_millis(500);

/// A cheap handle; clones share the rows of the last refresh.
#[derive(Clone)]
pub(crate) struct Readout {
    roster: Roster,
    rows: Arc<RwLock<Rows>>,
}

/// What a scrape shows.
#[derive(Default, Debug)]
struct Rows {
    owned: Vec<(GroupName, i64)>,
    partitions: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    at: GroupPartition,
    lag: i64,
    end: i64,
}

/// One partition that is being served, as of a moment ago.
pub(crate) struct Served {
    pub(crate) at: GroupPartition,
    pub(crate) status: Status,
    /// Read after the status, so never below its cursor; `None` if the queue did not say.
    pub(crate) end: Option<Offset>,
}

/// One log of one queue, which many groups may read.
struct Log {
    cluster: Arc<Cluster>,
    topic: Topic,
    partition: Partition,
}

/// The queue by its address: it is only ever compared.
type LogKey = (usize, Topic, Partition);

impl Readout {
    pub(crate) fn new(roster: Roster) -> Self {
        Self { roster, rows: Arc::default() }
    }

    /// Those that answer in time.
    pub(crate) async fn served(&self, entries: Vec<Entry>) -> Vec<Served> {
        let statuses: Vec<(Entry, Status)> = stream::iter(entries)
            .map(|entry| async move { entry.status().await.map(|status| (entry, status)) })
            .buffer_unordered(CONCURRENCY)
            .filter_map(ready)
            .take_until(tokio::time::sleep(TIMEOUT))
            .collect()
            .await;
        let log = |entry: &Entry| Log {
            cluster: entry.keeper.group.cluster.clone(),
            topic: entry.at.topic.clone(),
            partition: entry.at.partition,
        };
        let ends = ends(statuses.iter().map(|(entry, _)| log(entry)), TIMEOUT).await;
        let served = |(entry, status): (Entry, Status)| {
            let end = ends.get(&log(&entry).key()).copied();
            Served { at: entry.at, status, end }
        };
        statuses.into_iter().map(served).collect()
    }

    /// Brings what the [`Collector`] shows up to date.
    pub(crate) async fn refresh(&self) {
        let entries = self.roster.entries();
        let mut owned: BTreeMap<_, i64> = self.roster.groups().iter().map(|listed| (listed.group.config.group.clone(), 0)).collect();
        for entry in entries.iter().filter(|entry| entry.serving()) {
            *owned.entry(entry.at.group.clone()).or_default() += 1;
        }
        let partitions = self.served(entries).await.iter().filter_map(row).collect();
        *self.rows.write().unwrap_or_else(PoisonError::into_inner) = Rows { owned: owned.into_iter().collect(), partitions };
    }
}

impl Log {
    fn key(&self) -> LogKey {
        (Arc::as_ptr(&self.cluster).addr(), self.topic.clone(), self.partition)
    }
}

/// The ends of those that answer in time, each asked for once.
async fn ends(logs: impl Iterator<Item = Log>, patience: Duration) -> HashMap<LogKey, Offset> {
    let logs: HashMap<LogKey, Log> = logs.map(|log| (log.key(), log)).collect();
    let end = |log: Log| async move {
        let end = log.cluster.queue.watermarks(&log.topic, log.partition).await.ok()?.end;
        Some((log.key(), end))
    };
    let ends = stream::iter(logs.into_values()).map(end).buffer_unordered(CONCURRENCY).filter_map(ready);
    ends.take_until(tokio::time::sleep(patience)).collect().await
}

/// The ends of some logs of a group's queue.
pub(crate) async fn ends_of(group: &Group, logs: Vec<(Topic, Partition)>, patience: Duration) -> HashMap<(Topic, Partition), Offset> {
    let log = |(topic, partition)| Log { cluster: group.cluster.clone(), topic, partition };
    let ends = ends(logs.into_iter().map(log), patience).await;
    ends.into_iter().map(|((_, topic, partition), end)| ((topic, partition), end)).collect()
}

/// Records between a cursor and an end.
pub(crate) fn lag(cursor: Offset, end: Offset) -> u64 {
    end.0.saturating_sub(cursor.0)
}

fn row(Served { at, status, end }: &Served) -> Option<Row> {
    let end = (*end)?;
    let lag = lag(Offset(status.progress.cursor.0), end);
    Some(Row { at: at.clone(), lag: gauge(lag), end: gauge(end.0) })
}

/// Gauges are signed; offsets do not reach the other half.
fn gauge(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl std::fmt::Debug for Readout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readout").finish_non_exhaustive()
    }
}

impl Collector for Readout {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        {
            let mut owned =
                encoder.encode_descriptor("owned_partitions", "Partitions that this process serves.", None, MetricType::Gauge)?;
            for (group, count) in &rows.owned {
                ConstGauge::new(*count).encode(owned.encode_family(&[("group", group.as_str())])?)?;
            }
        }
        type Column = fn(&Row) -> i64;
        let columns: [(&str, &str, Column); 2] = [
            ("lag_records", "Records between the cursor and the end of the partition.", |row| row.lag),
            ("end_offset", "The offset that the partition's next record will get.", |row| row.end),
        ];
        for (name, help, value) in columns {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for row in &rows.partitions {
                let labels =
                    [("group", row.at.group.to_string()), ("topic", row.at.topic.to_string()), ("partition", row.at.partition.to_string())];
                ConstGauge::new(value(row)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

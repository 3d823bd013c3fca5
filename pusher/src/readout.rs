//! How far the owned partitions are behind, read when somebody asks: nothing is counted per message
//! and nothing wakes an idle process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use common::ids::{GroupName, GroupPartition, Offset, Partition, Topic};
use common::queue::Queue;
use engine::task::Status;
use futures_util::StreamExt;
use futures_util::stream;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::sync::watch;

use crate::directory::Directory;

/// Questions to the queue and to partition loops that are open at one time.
const CONCURRENCY: usize = 64;
/// How long answers are waited for, of loops and of the queue; what has not answered is left out.
const TIMEOUT: Duration = Duration::from_millis(500);

/// A cheap handle; clones share the rows of the last refresh.
#[derive(Clone)]
pub(crate) struct Readout {
    groups: Arc<[GroupName]>,
    directory: watch::Receiver<Directory>,
    queue: Arc<dyn Queue>,
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

impl Readout {
    pub(crate) fn new(groups: Arc<[GroupName]>, directory: watch::Receiver<Directory>, queue: Arc<dyn Queue>) -> Self {
        Self { groups, directory, queue, rows: Arc::default() }
    }

    pub(crate) fn directory(&self) -> Directory {
        self.directory.borrow().clone()
    }

    /// Every partition that passes `filter` and answers.
    pub(crate) async fn served(&self, filter: impl Fn(&GroupPartition) -> bool) -> Vec<Served> {
        let entries: Vec<_> = self.directory().iter().filter(|entry| filter(&entry.at)).cloned().collect();
        let statuses: Vec<(GroupPartition, Status)> = stream::iter(entries)
            .map(|entry| async move { entry.status().await.map(|status| (entry.at, status)) })
            .buffer_unordered(CONCURRENCY)
            .filter_map(std::future::ready)
            .take_until(tokio::time::sleep(TIMEOUT))
            .collect()
            .await;
        let logs: BTreeSet<_> = statuses.iter().map(|(at, _)| (at.topic.clone(), at.partition)).collect();
        let ends = self.ends(logs).await;
        let served = |(at, status): (GroupPartition, Status)| {
            let end = ends.get(&(at.topic.clone(), at.partition)).copied();
            Served { at, status, end }
        };
        statuses.into_iter().map(served).collect()
    }

    /// The ends of those that answer.
    pub(crate) async fn ends(&self, logs: BTreeSet<(Topic, Partition)>) -> HashMap<(Topic, Partition), Offset> {
        let end = |(topic, partition): (Topic, Partition)| async move {
            let log = self.queue.watermarks(&topic, partition).await.ok()?;
            Some(((topic, partition), log.end))
        };
        let ends = stream::iter(logs).map(end).buffer_unordered(CONCURRENCY).filter_map(std::future::ready);
        ends.take_until(tokio::time::sleep(TIMEOUT)).collect().await
    }

    /// Brings what the [`Collector`] shows up to date.
    pub(crate) async fn refresh(&self) {
        let partitions = self.served(|_| true).await.iter().filter_map(row).collect();
        let mut owned: BTreeMap<_, i64> = self.groups.iter().map(|group| (group.clone(), 0)).collect();
        for entry in self.directory().iter() {
            *owned.entry(entry.at.group.clone()).or_default() += i64::from(entry.serving());
        }
        *self.rows.write().unwrap_or_else(PoisonError::into_inner) = Rows { owned: owned.into_iter().collect(), partitions };
    }
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

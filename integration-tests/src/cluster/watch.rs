//! Cursors over time, as an old tool sees them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Cluster;

/// Reads a group's cursors again and again until it is stopped.
pub struct CursorWatch {
    stop: CancellationToken,
    watching: JoinHandle<Vec<String>>,
}

impl CursorWatch {
    pub fn start(cluster: &Cluster, group: &str, topic: &str) -> Self {
        let stop = CancellationToken::new();
        let watching = tokio::spawn(watch(cluster.clone(), group.to_owned(), topic.to_owned(), stop.clone()));
        Self { stop, watching }
    }

    /// That none of them ever fell.
    pub async fn assert_none_fell(self) {
        self.stop.cancel();
        let fell = self.watching.await.unwrap();
        assert!(fell.is_empty(), "{fell:?}");
    }
}

async fn watch(cluster: Cluster, group: String, topic: String, stop: CancellationToken) -> Vec<String> {
    let (mut highest, mut fell) = (BTreeMap::new(), Vec::new());
    while !stop.is_cancelled() {
        for (partition, cursor) in cluster.cursors(&group, &topic) {
            let before = highest.insert(partition, cursor).unwrap_or(0);
            if cursor < before {
                fell.push(format!("partition {partition} from {before} to {cursor}"));
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    fell
}

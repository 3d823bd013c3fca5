//! Cursors and owners over time, as an old tool sees them.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Cluster;
use crate::zookeeper::tool::Tool;

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

/// Reads who owns each partition, and who wrote its cursor, again and again until it is stopped.
pub struct OwnerWatch {
    stop: CancellationToken,
    watching: JoinHandle<Owned>,
}

/// What an [`OwnerWatch`] saw.
#[derive(Debug, Default)]
pub struct Owned {
    /// Cursors that somebody else than the owner had written.
    pub by_others: Vec<String>,
    /// For how long a partition had no owner at most.
    pub longest_without: Duration,
    /// Looks that found an owner and what it had written.
    pub looks: usize,
}

impl OwnerWatch {
    pub fn start(cluster: &Cluster, group: &str, topic: &str, partitions: u32) -> Self {
        let stop = CancellationToken::new();
        let folder = |what: &str| cluster.path(&format!("/consumers/{group}/{what}/{topic}"));
        let look = Look { owners: folder("owners"), done: folder("done"), partitions };
        let watching = tokio::spawn(look.again_and_again(cluster.tool(), stop.clone()));
        Self { stop, watching }
    }

    /// Each cursor had always been written by its owner: a claim writes it too, so whoever writes
    /// after another's claim is found out.
    pub async fn assert_only_owners_wrote(self) -> Owned {
        self.stop.cancel();
        let owned = self.watching.await.unwrap();
        assert!(owned.by_others.is_empty(), "THE GUARANTEE IS BROKEN: {:?}", owned.by_others);
        assert!(owned.looks > 0, "it saw nothing");
        owned
    }
}

struct Look {
    owners: String,
    done: String,
    partitions: u32,
}

impl Look {
    async fn again_and_again(self, mut tool: Tool, stop: CancellationToken) -> Owned {
        // Of each instance, the life of its process, as it claimed its first partition.
        let mut lives: HashMap<String, String> = HashMap::new();
        let (mut owned, mut since) = (Owned::default(), HashMap::new());
        while !stop.is_cancelled() {
            for partition in 0..self.partitions {
                let owner = format!("{}/{partition}", self.owners);
                let found = tool.get_all(&[owner.clone(), format!("{}/{partition}", self.done), owner]);
                let [before, done, after] = <[_; 3]>::try_from(found).unwrap();
                if let Some(owner) = before.clone().or(after.clone()) {
                    since.remove(&partition);
                    if before == after
                        && let Some(done) = done
                    {
                        owned.looks += 1;
                        let life = lives.entry(owner.clone()).or_insert_with(|| writer(&done));
                        if writer(&done) != *life {
                            owned.by_others.push(format!("partition {partition} is {owner}'s, of {life}, and has {done:?}"));
                        }
                    }
                } else {
                    let without = since.entry(partition).or_insert_with(Instant::now).elapsed();
                    owned.longest_without = owned.longest_without.max(without);
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        owned
    }
}

/// The life of the process that wrote this done set, and the cursor with it.
fn writer(done: &str) -> String {
    let header: Value = serde_json::from_str(done.lines().next().unwrap()).unwrap();
    header["w"].as_str().unwrap().split_once('.').unwrap().0.to_owned()
}

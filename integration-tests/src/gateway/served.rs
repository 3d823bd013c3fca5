//! Waiting until the gateway has taken everything over.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::Gateway;
use crate::wait;

impl Gateway {
    /// Until so many partitions of the group exist and are served here: claims are made a moment after a topic.
    pub async fn until_served(&self, group: &str, partitions: usize) {
        wait::until(&format!("{partitions} partitions of {group} to be served"), Duration::from_secs(10), || async {
            self.is_served(group, partitions).await.then_some(())
        })
        .await;
    }

    /// Whether the group's partitions, so many, are all served.
    pub async fn is_served(&self, group: &str, partitions: usize) -> bool {
        let all = self.group(group).await["partitions"].as_array().unwrap().clone();
        all.len() == partitions && all.iter().all(|partition| partition["live"].is_object())
    }

    /// Until everything that is done in the group stands in the store, so that a crash repeats none of it.
    pub async fn until_stored(&self, group: &str, within: Duration) {
        wait::until_right(within, || async {
            let stored = self.admin_get(&format!("/v1/groups/{group}/cursors")).await;
            let stored = marks(&stored["cursors"], |of| &of["done_records"]);
            let group = self.group(group).await;
            let done = marks(&group["partitions"], |of| &of["live"]["done_set"]);
            if stored == done { Ok(()) } else { Err(format!("stored is {stored:?}, and done {done:?}")) }
        })
        .await;
    }
}

/// Cursor and done records above it, by topic and partition.
fn marks(partitions: &Value, above: impl Fn(&Value) -> &Value) -> BTreeMap<String, (Value, Value)> {
    let mark = |of: &Value| (format!("{} {}", of["topic"], of["partition"]), (of["cursor"].clone(), above(of).clone()));
    partitions.as_array().expect("a list of partitions").iter().map(mark).collect()
}

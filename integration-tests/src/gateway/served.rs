//! Waiting until the gateway has taken everything over.

use std::time::Duration;

use super::Gateway;
use crate::wait;

impl Gateway {
    /// Until so many partitions of the group exist and are served here: claims are made a moment after a topic.
    pub async fn until_served(&self, group: &str, partitions: usize) {
        wait::until(&format!("{partitions} partitions of {group} to be served"), Duration::from_secs(10), || async {
            let all = self.group(group).await["partitions"].as_array().unwrap().clone();
            (all.len() == partitions && all.iter().all(|partition| partition["live"].is_object())).then_some(())
        })
        .await;
    }
}

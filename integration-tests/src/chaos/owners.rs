//! Which pusher had which epoch, as the pushers' own logs say.

use std::collections::HashMap;

use serde_json::Value;

use crate::request::Seen;

/// What the pushers are told to log beside the usual.
pub(super) const LOG: (&str, &str) = ("RUST_LOG", "info,pusher::keeper=debug");

/// Numbers of pushers, from 1.
#[derive(Default)]
pub(super) struct Owners(HashMap<(String, String, u32, u64), usize>);

impl Owners {
    /// A line may be cut short by `kill -9`.
    pub(super) fn read(&mut self, pusher: usize, log: &str) {
        let lines = log.lines().filter(|line| line.contains("\"epoch\"")).filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for line in lines {
            let epoch = || {
                let text = |name: &str| line[name].as_str().map(str::to_owned);
                Some((text("group")?, text("topic")?, u32::try_from(line["partition"].as_u64()?).ok()?, line["epoch"].as_u64()?))
            };
            if let Some(epoch) = epoch() {
                self.0.insert(epoch, pusher);
            }
        }
    }

    pub(super) fn of(&self, group: &str, seen: &Seen) -> Option<usize> {
        self.0.get(&(group.to_owned(), seen.topic().to_owned(), seen.partition(), seen.epoch())).copied()
    }
}

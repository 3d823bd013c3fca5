//! A group's control node: whether it is paused, and which replays it has seen.

use std::collections::{BTreeMap, HashSet};

use super::{Control, CoordinatorError, Replay};

/// How many replay ids are remembered. A repeated one writes nothing.
pub const MAX_REPLAYS: usize = 16;

/// In one transaction.
pub const MAX_TARGETS: usize = 2000;

/// Topics that a refusal names.
const MAX_NAMED: usize = 10;

impl Control {
    pub fn has_seen(&self, replay: &str) -> bool {
        self.replays.iter().any(|seen| seen == replay)
    }

    /// With one more replay; the oldest is forgotten where there are too many.
    #[must_use]
    pub fn with_replay(mut self, id: String) -> Self {
        self.replays.push(id);
        let forgotten = self.replays.len().saturating_sub(MAX_REPLAYS);
        self.replays.drain(..forgotten);
        self
    }
}

/// By what a replay can be split, as text for a refusal: its topics in the order of their names, each with the
/// number of its partitions. Beyond the first few they are only counted.
pub fn topics(replay: &Replay) -> String {
    let mut partitions: BTreeMap<&str, usize> = BTreeMap::new();
    for target in &replay.targets {
        *partitions.entry(target.topic.as_str()).or_default() += 1;
    }
    let count = |partitions| if partitions == 1 { "1 partition".to_owned() } else { format!("{partitions} partitions") };
    let mut named: Vec<String> =
        partitions.iter().take(MAX_NAMED).map(|(topic, partitions)| format!("{topic} ({})", count(*partitions))).collect();
    match partitions.len().saturating_sub(MAX_NAMED) {
        0 => {}
        more => named.push(format!("and {more} more")),
    }
    named.join(", ")
}

/// Refuses what cannot be one transaction, before anything is written.
pub fn check(replay: &Replay) -> Result<(), CoordinatorError> {
    let Replay { group, id, targets, .. } = replay;
    if targets.len() > MAX_TARGETS {
        return Err(CoordinatorError::Refused(format!(
            "replay {id:?} of group {group} moves {} partitions, and at most {MAX_TARGETS} can be moved at once; nothing was moved; split it by topic: {}",
            targets.len(),
            topics(replay)
        )));
    }
    let mut seen = HashSet::new();
    match targets.iter().find(|target| !seen.insert((&target.topic, target.partition))) {
        None => Ok(()),
        Some(twice) => {
            let (topic, partition) = (&twice.topic, twice.partition);
            Err(CoordinatorError::Refused(format!(
                "replay {id:?} of group {group} names partition {partition} of topic {topic} twice; nothing was moved"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::ReplayTarget;
    use crate::ids::{GroupName, Offset, Partition, Topic};

    fn replay(targets: impl IntoIterator<Item = (&'static str, u32)>) -> Replay {
        let targets = targets.into_iter().map(|(topic, partition)| ReplayTarget {
            topic: Topic::new(topic).unwrap(),
            partition: Partition(partition),
            to: Offset(0),
            topic_id: None,
        });
        Replay { group: GroupName::new("g").unwrap(), id: "r".into(), asked_at: 0, targets: targets.collect() }
    }

    #[test]
    fn the_last_sixteen_replays_are_remembered() {
        let control = (0..20).fold(Control::default(), |control, n| control.with_replay(n.to_string()));
        assert_eq!(control.replays.len(), MAX_REPLAYS);
        assert!(!control.has_seen("3") && control.has_seen("4") && control.has_seen("19"));
    }

    #[test]
    fn too_large_a_replay_is_refused_and_names_what_to_split_by() {
        assert_eq!(check(&replay((0..2000).map(|p| ("a", p)))), Ok(()));
        let refused = check(&replay((0..2000).map(|p| ("a", p)).chain([("b", 0)]))).unwrap_err().to_string();
        assert!(refused.contains("a (2000 partitions), b (1 partition)"), "{refused}");
    }

    #[test]
    fn of_many_topics_a_refusal_names_the_first_ones() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let named = topics(&replay(names.map(|topic| (topic, 0))));
        assert!(named.starts_with("a (1 partition), b (1 partition)") && named.ends_with("j (1 partition), and 2 more"), "{named}");
    }

    #[test]
    fn a_partition_named_twice_is_refused() {
        let refused = check(&replay([("a", 1), ("b", 1), ("a", 1)])).unwrap_err().to_string();
        assert!(refused.contains("partition 1 of topic a twice"), "{refused}");
    }
}

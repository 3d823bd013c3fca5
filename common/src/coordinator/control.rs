//! A group's control node: whether it is paused, and which replays it has seen.

use std::collections::HashSet;

use super::{Control, CoordinatorError, Replay};

/// How many replay ids are remembered. A repeated one writes nothing.
pub const MAX_REPLAYS: usize = 16;

/// In one transaction.
pub const MAX_TARGETS: usize = 2000;

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

/// Refuses what cannot be one transaction, before anything is written.
pub fn check(replay: &Replay) -> Result<(), CoordinatorError> {
    let Replay { group, id, targets, .. } = replay;
    if targets.len() > MAX_TARGETS {
        let mut topics: Vec<(&str, usize)> = Vec::new();
        for target in targets {
            match topics.iter_mut().find(|(topic, _)| *topic == target.topic.as_str()) {
                Some((_, partitions)) => *partitions += 1,
                None => topics.push((target.topic.as_str(), 1)),
            }
        }
        let topics: Vec<String> = topics.iter().map(|(topic, partitions)| format!("{topic} ({partitions} partitions)")).collect();
        return Err(CoordinatorError::Refused(format!(
            "replay {id:?} of group {group} moves {} partitions, and at most {MAX_TARGETS} can be moved at once; nothing was moved; split it by topic: {}",
            targets.len(),
            topics.join(", ")
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
        assert!(refused.contains("a (2000 partitions), b (1 partitions)"), "{refused}");
    }

    #[test]
    fn a_partition_named_twice_is_refused() {
        let refused = check(&replay([("a", 1), ("b", 1), ("a", 1)])).unwrap_err().to_string();
        assert!(refused.contains("partition 1 of topic a twice"), "{refused}");
    }
}

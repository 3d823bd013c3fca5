//! Putting the log together again at start, from what is written down about sealed segments and a
//! look at the first and last chunk of each partition in the others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::catalog::TopicLogs;
use super::chunk::Place;
use super::cleaner::drop_all;
use super::housekeeper::Sealed;
use super::meta::{Meta, MetaError};
use super::segment::{Run, Segment, SegmentError};
use crate::store::{Store, StoreError};

/// Why the log cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Meta(#[from] MetaError),
    #[error("the log cannot be read: {0}")]
    Log(String),
}

impl From<SegmentError> for RecoveryError {
    fn from(error: SegmentError) -> Self {
        Self::Log(error.to_string())
    }
}

pub(super) struct Recovered {
    pub(super) topics: Vec<TopicLogs>,
    pub(super) sealed: Vec<Sealed>,
    /// Full, but that is not written down yet.
    pub(super) unsealed: Vec<Sealed>,
    /// To go on filling.
    pub(super) head: Option<Sealed>,
    pub(super) next_segment: u64,
    pub(super) next_topic: u32,
}

pub(super) fn recover(store: &Store, meta: &Meta) -> Result<Recovered, RecoveryError> {
    let mut contents = meta.segments()?;
    let segments = Segment::all(store)?;
    let last = segments.last().map(|segment| segment.id).max(contents.keys().next_back().copied());
    let mut runs = Runs::default();
    let mut sealed = Vec::new();
    let mut open = Vec::new();
    for segment in segments {
        match contents.remove(&segment.id) {
            Some(stored) => {
                runs.add(stored.runs.into_iter().map(|run| run.into_run(&segment)).collect());
                sealed.push(Sealed { segment, bytes: stored.bytes });
            }
            None => open.push(segment),
        }
    }
    let (head, unsealed) = look_into(store, meta, &mut runs, open)?;
    let topics = topics(meta, runs)?;
    Ok(Recovered { topics, sealed, unsealed, head, next_segment: last.map_or(0, |id| id + 1), next_topic: meta.next_topic()? })
}

/// Segments of which nothing is written down: the one that was being filled, others that were
/// full but not sealed yet, empty ones, and copies that a move which was cut short left behind.
fn look_into(store: &Store, meta: &Meta, runs: &mut Runs, open: Vec<Arc<Segment>>) -> Result<(Option<Sealed>, Vec<Sealed>), RecoveryError> {
    let mut useless = Vec::new();
    let mut used = Vec::new();
    let mut found = Vec::new();
    for segment in open {
        let in_it = segment.runs()?;
        if in_it.is_empty() || in_it.iter().any(|(place, run)| runs.overlap(*place, run)) {
            useless.push(segment);
        } else {
            let bytes = in_it.iter().map(|(_, run)| run.bytes).sum();
            used.push(Sealed { segment, bytes });
            found.extend(in_it);
        }
    }
    runs.add(found);
    drop_all(store, meta, &useless)?;
    // With more than one, which of them was filled last cannot be told, and need not be.
    let head = if used.len() == 1 { used.pop() } else { None };
    Ok((head, used))
}

fn topics(meta: &Meta, mut runs: Runs) -> Result<Vec<TopicLogs>, RecoveryError> {
    let mut topics = Vec::new();
    for (topic, stored) in meta.topics()? {
        let mut restored = BTreeMap::new();
        for partition in 0..stored.partitions {
            let place = Place { topic: stored.number, partition };
            let first = meta.first(place)?;
            let left = runs.take(place, first);
            if let Some((before, after)) = hole(first, &left) {
                let hole = format!("the records of {topic}/{partition} from {before} to {} are missing in the store", after - 1);
                return Err(RecoveryError::Log(hole));
            }
            restored.insert(place, (first, left));
        }
        topics.push(TopicLogs::new(topic, &stored, |place| restored.remove(&place).unwrap_or_default()));
    }
    Ok(topics)
}

fn hole(first: u64, runs: &VecDeque<Run>) -> Option<(u64, u64)> {
    let mut expected = first;
    for run in runs {
        if run.base > expected {
            return Some((expected, run.base));
        }
        expected = run.end;
    }
    None
}

/// Of every place, in offset order.
#[derive(Default)]
struct Runs(BTreeMap<Place, VecDeque<Run>>);

impl Runs {
    fn add(&mut self, found: Vec<(Place, Run)>) {
        for (place, run) in found {
            let runs = self.0.entry(place).or_default();
            runs.insert(runs.partition_point(|other| other.base < run.base), run);
        }
    }

    fn overlap(&self, place: Place, run: &Run) -> bool {
        self.0.get(&place).is_some_and(|runs| runs.iter().any(|other| other.base < run.end && run.base < other.end))
    }

    /// What retention has left of a place.
    fn take(&mut self, place: Place, first: u64) -> VecDeque<Run> {
        let mut runs = self.0.remove(&place).unwrap_or_default();
        runs.retain(|run| run.end > first);
        runs
    }
}

//! What is written down beside the records: topics, where retention has come to, and what lies
//! in each sealed segment.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::chunk::Place;
use super::segment::{Run, Segment};
use crate::ids::{Topic, TopicId};
use crate::record::TimestampMs;
use crate::store::{Batch, Keyspace, Profile, Store, StoreError};

const KEYSPACE: &str = "log-meta";
const TOPIC: u8 = b't';
const FIRST: u8 = b'f';
const SEGMENT: u8 = b's';
const NEXT_TOPIC: &[u8] = b"n";

#[derive(Clone)]
pub(super) struct Meta {
    keyspace: Keyspace,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredTopic {
    pub(super) number: u32,
    pub(super) id: TopicId,
    pub(super) partitions: u32,
}

/// What a sealed segment holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredSegment {
    /// Of all records, those of deleted topics included.
    pub(super) bytes: u64,
    pub(super) runs: Vec<StoredRun>,
}

/// One line of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredRun {
    topic: u32,
    partition: u32,
    base: u64,
    end: u64,
    bytes: u64,
    max_timestamp: TimestampMs,
}

impl StoredRun {
    pub(super) fn new(place: Place, run: &Run) -> Self {
        let Place { topic, partition } = place;
        Self { topic, partition, base: run.base, end: run.end, bytes: run.bytes, max_timestamp: run.max_timestamp }
    }

    pub(super) fn into_run(self, segment: &Arc<Segment>) -> (Place, Run) {
        let Self { topic, partition, base, end, bytes, max_timestamp } = self;
        (Place { topic, partition }, Run { segment: Arc::clone(segment), base, end, bytes, max_timestamp })
    }
}

/// Why what is written down cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the log's own notes under {key:?} cannot be read: {reason}")]
    Unreadable { key: Bytes, reason: String },
}

impl Meta {
    pub(super) fn open(store: &Store) -> Result<Self, StoreError> {
        Ok(Self { keyspace: store.keyspace(KEYSPACE, Profile::Small)? })
    }

    pub(super) fn put_topic(&self, batch: &mut Batch, topic: &Topic, stored: &StoredTopic) {
        batch.put(&self.keyspace, &named(TOPIC, topic.as_str().as_bytes()), json(stored));
        batch.put(&self.keyspace, NEXT_TOPIC, json(&(stored.number + 1)));
    }

    pub(super) fn delete_topic(&self, batch: &mut Batch, topic: &Topic, places: impl Iterator<Item = Place>) {
        batch.delete(&self.keyspace, &named(TOPIC, topic.as_str().as_bytes()));
        for place in places {
            batch.delete(&self.keyspace, &first_key(place));
        }
    }

    /// So that offsets go on from here when no record is left.
    pub(super) fn put_first(&self, batch: &mut Batch, place: Place, first: u64) {
        batch.put(&self.keyspace, &first_key(place), json(&first));
    }

    pub(super) fn put_segment(&self, batch: &mut Batch, id: u64, stored: &StoredSegment) {
        batch.put(&self.keyspace, &named(SEGMENT, &id.to_be_bytes()), json(stored));
    }

    pub(super) fn delete_segment(&self, batch: &mut Batch, id: u64) {
        batch.delete(&self.keyspace, &named(SEGMENT, &id.to_be_bytes()));
    }

    pub(super) fn next_topic(&self) -> Result<u32, MetaError> {
        let stored = self.keyspace.get(NEXT_TOPIC)?;
        stored.map_or(Ok(0), |value| parse(&Bytes::from_static(NEXT_TOPIC), &value))
    }

    pub(super) fn topics(&self) -> Result<Vec<(Topic, StoredTopic)>, MetaError> {
        let topics = self.entries(TOPIC)?.into_iter().map(|(key, value)| {
            let name = std::str::from_utf8(&key[1..]).ok().and_then(|name| Topic::new(name).ok());
            let name = name.ok_or_else(|| MetaError::Unreadable { key: key.clone(), reason: "not a topic name".to_owned() })?;
            Ok((name, parse(&key, &value)?))
        });
        topics.collect()
    }

    pub(super) fn first(&self, place: Place) -> Result<u64, MetaError> {
        let key = first_key(place);
        let stored = self.keyspace.get(&key)?;
        stored.map_or(Ok(0), |value| parse(&Bytes::copy_from_slice(&key), &value))
    }

    /// The contents of sealed segments, by id.
    pub(super) fn segments(&self) -> Result<BTreeMap<u64, StoredSegment>, MetaError> {
        let segments = self.entries(SEGMENT)?.into_iter().map(|(key, value)| {
            let id = key[1..].first_chunk().copied().map(u64::from_be_bytes);
            let id = id.ok_or_else(|| MetaError::Unreadable { key: key.clone(), reason: "not a segment's number".to_owned() })?;
            Ok((id, parse(&key, &value)?))
        });
        segments.collect()
    }

    fn entries(&self, kind: u8) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.keyspace.prefix(&[kind]).collect()
    }
}

fn named(kind: u8, name: &[u8]) -> Vec<u8> {
    [&[kind], name].concat()
}

fn first_key(place: Place) -> Vec<u8> {
    [&[FIRST][..], &place.topic.to_be_bytes(), &place.partition.to_be_bytes()].concat()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers and texts always have a JSON form")
}

fn parse<T: for<'de> Deserialize<'de>>(key: &Bytes, value: &[u8]) -> Result<T, MetaError> {
    serde_json::from_slice(value).map_err(|e| MetaError::Unreadable { key: key.clone(), reason: e.to_string() })
}

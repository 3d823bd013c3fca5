//! What a group may still need of a partition, for who wants to delete old records.

use super::super::{Birth, claim, done::node};
use super::keys;
use crate::ids::{GroupPartition, Offset, TopicId};
use crate::store::{Keyspace, StoreError};

/// In doubt everything: what is kept too long costs disk, what is deleted too early is lost.
pub(super) fn needed(keyspace: &Keyspace, at: &GroupPartition, topic_id: TopicId) -> Result<Offset, StoreError> {
    let of_this_topic = |id: Option<TopicId>| id.is_none_or(|id| id == topic_id);
    if let Some(pair) = keyspace.get(&keys::pair(at))? {
        let found = keys::decode_pair(&pair);
        let header = found.done.and_then(|done| node::header(done.text).ok());
        let cursor = claim::pair(&claim::Found { done: None, ..found }).ok().flatten().map(|progress| progress.cursor);
        return Ok(cursor.filter(|_| of_this_topic(header.and_then(|header| header.topic_id))).unwrap_or_default());
    }
    let birth = keyspace.get(&keys::birth(&at.group, &at.topic))?;
    let birth: Option<Birth> = birth.and_then(|json| serde_json::from_slice(&json).ok());
    let start = birth.filter(|birth| of_this_topic(birth.topic_id)).and_then(|birth| birth.start.get(at.partition.0 as usize).copied());
    Ok(start.unwrap_or_default())
}

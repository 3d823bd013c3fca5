//! The JSON of the admin API, as types: what the server writes and `mqgate`'s own commands read.

use std::collections::BTreeMap;

use common::ids::Topic;
use serde::{Deserialize, Serialize};

/// `GET /v1/groups`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupList {
    pub groups: Vec<GroupSummary>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupSummary {
    pub group: String,
    pub url: String,
    pub topics: Vec<Topic>,
    pub state: GroupState,
    /// Of the topics that exist, over the whole fleet.
    pub partitions: usize,
    /// Of these, owned by the answering process.
    pub owned: usize,
    /// Records between cursor and end, over the partitions for which both are known.
    pub lag: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    Running,
    Paused,
}

/// `GET /v1/groups/{group}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupDetail {
    pub group: String,
    pub state: GroupState,
    pub policy: Policy,
    pub partitions: Vec<PartitionView>,
}

/// The group's configuration as it is in force. Durations as in the file (`"1s"`), sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub url: String,
    pub topics: Vec<Topic>,
    pub worker_num: usize,
    pub order: String,
    pub retry_times: u32,
    pub retry_backoff: BackoffView,
    pub bypass_failed: bool,
    pub failed_sleep: String,
    pub timeout: String,
    pub connect_timeout: String,
    pub processing_timeout: Option<String>,
    pub retry_after_max: String,
    pub initial_from: String,
    pub delay: Option<String>,
    pub dead_letter_topic: Option<Topic>,
    pub serializer: String,
    pub content_type: Option<String>,
    pub success_status: String,
    pub commit_interval: String,
    pub max_in_flight_records: usize,
    pub max_in_flight_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackoffView {
    pub initial: String,
    pub max: String,
}

/// One partition of one group. What is not known is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionView {
    pub topic: Topic,
    pub partition: u32,
    /// The owner's instance name.
    pub owner: Option<String>,
    /// The owner's admin address, where `live` can be read, if that is not this process.
    pub owner_admin: Option<String>,
    /// The next offset to deliver.
    pub cursor: Option<u64>,
    pub end: Option<u64>,
    pub lag: Option<u64>,
    /// Why the partition is not being served although this process should own it.
    pub trouble: Option<String>,
    pub live: Option<Live>,
}

/// What only the owner knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    pub epoch: u64,
    pub in_flight: usize,
    /// Read and neither delivered nor given up.
    pub unfinished: usize,
    pub unfinished_bytes: usize,
    pub pending_retries: usize,
    /// Records above the cursor that are done.
    pub done_set: u64,
    /// Why nothing is attempted (`paused`, `lease`) or nothing more is read, if so; the offset that
    /// blocks is `oldest_unfinished`'s.
    pub blocked: Option<String>,
    pub oldest_unfinished: Option<OldestUnfinished>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OldestUnfinished {
    pub offset: u64,
    /// Since it was read.
    pub age_seconds: f64,
    pub attempts: u32,
    pub last_error: Option<LastError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    pub reason: String,
    pub status: Option<u16>,
    pub detail: String,
}

/// `GET /v1/groups/{group}/cursors`: what is stored, which is where a restart begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorList {
    pub group: String,
    pub cursors: Vec<CursorView>,
}

/// Of one partition. What is not known, or not there yet, is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorView {
    pub topic: Topic,
    pub partition: u32,
    pub cursor: Option<u64>,
    /// Runs that are done above the cursor, first and last offset of each; at most 100.
    pub done: Vec<[u64; 2]>,
    /// Records in all of the runs.
    pub done_records: u64,
    pub end: Option<u64>,
    pub lag: Option<u64>,
    pub owner: Option<String>,
}

/// The answer to `POST /v1/groups/{group}/pause` and `resume`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stated {
    pub group: String,
    pub state: GroupState,
}

/// The body of `POST /v1/groups/{group}/replay`: either `from` or `offsets`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object with from or offsets")]
pub struct ReplayRequest {
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// By topic and partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offsets: Option<BTreeMap<Topic, BTreeMap<u32, u64>>>,
    /// Of the last 16 ids none is done twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub dry_run: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayAnswer {
    pub group: String,
    pub id: String,
    /// This id was seen before, and nothing was written.
    pub repeated: bool,
    pub dry_run: bool,
    /// Empty if repeated.
    pub partitions: Vec<MovedCursor>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedCursor {
    pub topic: Topic,
    pub partition: u32,
    /// Null: there was no cursor yet.
    pub old: Option<u64>,
    pub new: u64,
}

/// `GET /v1/topics`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicList {
    pub topics: Vec<TopicView>,
}

/// One topic; also the answer to `PUT /v1/topics/{topic}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicView {
    pub topic: Topic,
    /// Null where the queue has no ids.
    pub id: Option<String>,
    pub partitions: Vec<LogView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogView {
    pub partition: u32,
    /// The oldest offset that is kept.
    pub first: u64,
    /// The offset that the next record will get.
    pub end: u64,
}

/// The body of `PUT /v1/topics/{topic}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with partitions")]
pub struct NewTopic {
    pub partitions: u32,
}

/// `GET /v1/topics/{topic}/messages`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageList {
    pub topic: Topic,
    pub partition: u32,
    pub first: u64,
    pub end: u64,
    /// Where to go on reading.
    pub next_offset: u64,
    pub messages: Vec<MessageView>,
}

/// A record. Bytes that are not UTF-8 are in the field ending in `_base64`, and then the other is
/// absent. A null key and a null value (tombstone) are null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageView {
    pub offset: u64,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub timestamp: i64,
    #[serde(flatten)]
    pub key: KeyView,
    pub headers: Vec<HeaderView>,
    #[serde(flatten)]
    pub value: ValueView,
    /// Present when the value was cut, so that the answer stays below 1 MiB: its whole size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_from_bytes: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyView {
    #[serde(rename = "key")]
    Text(Option<String>),
    #[serde(rename = "key_base64")]
    Base64(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueView {
    #[serde(rename = "value")]
    Text(Option<String>),
    #[serde(rename = "value_base64")]
    Base64(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderView {
    pub name: String,
    #[serde(flatten)]
    pub value: ValueView,
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;

    use super::*;

    const DOCUMENTED: &str = include_str!("../../../docs/operating.md");

    /// What stands in the documentation under a heading line, read and written again.
    fn documented<T: DeserializeOwned + Serialize + Debug>(after: &str) {
        let (_, rest) = DOCUMENTED.split_once(after).unwrap();
        let json = rest.split_once("```json").unwrap().1.split_once("```").unwrap().0;
        let shown: serde_json::Value = serde_json::from_str(json).unwrap();
        let read: T = serde_json::from_value(shown.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), shown, "{after}");
    }

    #[test]
    fn the_documentation_shows_what_is_answered() {
        documented::<GroupList>("`GET /v1/groups`");
        documented::<GroupDetail>("`GET /v1/groups/{group}`");
        documented::<CursorList>("`GET /v1/groups/{group}/cursors`");
        documented::<ReplayAnswer>("`POST /v1/groups/{group}/replay`");
        documented::<TopicList>("`GET /v1/topics`");
        documented::<MessageList>("`GET /v1/topics/{topic}/messages");
    }
}

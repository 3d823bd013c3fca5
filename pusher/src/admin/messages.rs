//! `GET topics/{topic}/messages`: a look at what is stored.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use common::admin::{Path, Query};
use common::ids::{Epoch, Offset, Partition};
use common::problem::{Kind, Problem};
use common::queue::{ReadError, Reader, Watermarks};
use common::record::{Header, Record};
use serde::Deserialize;

use super::topics::legal;
use super::view::{HeaderView, KeyView, MessageList, MessageView, ValueView};
use super::{Admin, queue_refused};

const MAX_MESSAGES: usize = 100;
/// Of keys, values and headers together.
const MAX_BYTES: usize = 1 << 20;
/// However much there is, an answer comes after this with what was read until then.
const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    #[serde(default)]
    partition: u32,
    /// Default: so that the newest `limit` are shown.
    offset: Option<u64>,
    #[serde(default = "default_limit")]
    limit: usize,
}

fn default_limit() -> usize {
    20
}

pub(super) async fn list(
    State(admin): State<Admin>,
    Path(name): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Json<MessageList>, Problem> {
    let topic = legal(&name)?;
    if !(1..=MAX_MESSAGES).contains(&asked.limit) {
        return Err(Problem::new(Kind::Malformed, format!("limit is 1 to {MAX_MESSAGES}, not {}", asked.limit)));
    }
    let (queue, partition) = (&admin.queue, Partition(asked.partition));
    let log = queue.watermarks(&topic, partition).await.map_err(|error| queue_refused(&error))?;
    let from = start(&asked, log)?;
    let mut page = Page { next: from, limit: asked.limit, bytes_left: MAX_BYTES, messages: Vec::new() };
    if from < log.end {
        let mut reader = queue.open(&topic, partition, from, Epoch(0)).await.map_err(|error| read_refused(&error))?;
        // In time or not, the page has what was read.
        if let Ok(Err(error)) = tokio::time::timeout(TIMEOUT, page.fill(&mut *reader, log.end)).await {
            return Err(read_refused(&error));
        }
    }
    let (first, end, next_offset) = (log.first.0, log.end.0, page.next.0);
    Ok(Json(MessageList { topic, partition: partition.0, first, end, next_offset, messages: page.messages }))
}

/// Where to begin. The end itself is a place: there is nothing there yet.
fn start(asked: &Asked, log: Watermarks) -> Result<Offset, Problem> {
    let newest = || Offset(log.end.0.saturating_sub(asked.limit as u64)).max(log.first);
    let from = asked.offset.map_or_else(newest, Offset);
    if from < log.first || from > log.end {
        let detail = format!("offset {from} is outside of the log, which has {}..{}", log.first, log.end);
        return Err(Problem::new(Kind::Malformed, detail));
    }
    Ok(from)
}

fn read_refused(error: &ReadError) -> Problem {
    match error {
        ReadError::OutOfRange { .. } => Problem::new(Kind::Malformed, error.to_string()),
        ReadError::Queue(error) => queue_refused(error),
    }
}

struct Page {
    next: Offset,
    limit: usize,
    bytes_left: usize,
    messages: Vec<MessageView>,
}

impl Page {
    /// Until it is full or `end` is reached: a reader at the end would wait for more.
    async fn fill(&mut self, reader: &mut dyn Reader, end: Offset) -> Result<(), ReadError> {
        while self.next < end {
            let batch = reader.next(self.bytes_left.max(1)).await?;
            for record in batch.records {
                if !self.take(&record) {
                    return Ok(());
                }
            }
            self.next = batch.next_offset;
        }
        Ok(())
    }

    /// `false` once nothing more fits. The first always does, cut if need be.
    fn take(&mut self, record: &Record) -> bool {
        let size = record.payload.size_bytes();
        let first = self.messages.is_empty();
        if self.messages.len() == self.limit || (size > self.bytes_left && !first) {
            return false;
        }
        self.messages.push(view(record, self.bytes_left));
        self.bytes_left = self.bytes_left.saturating_sub(size);
        self.next = record.offset.next();
        true
    }
}

/// `bytes_left` is room for the whole record; only a value is cut to it, never key or headers.
fn view(record: &Record, bytes_left: usize) -> MessageView {
    let payload = &record.payload;
    let value_bytes = payload.value.as_ref().map_or(0, Bytes::len);
    let room = bytes_left.saturating_sub(payload.size_bytes() - value_bytes);
    let cut = value_bytes > room;
    let shown = payload.value.as_ref().map(|value| value.slice(..value_bytes.min(room)));
    let header = |Header { name, value }: &Header| HeaderView { name: name.to_string(), value: text_or_base64(Some(value)) };
    MessageView {
        offset: record.offset.0,
        timestamp: record.timestamp,
        key: match text_or_base64(payload.key.as_ref()) {
            ValueView::Text(text) => KeyView::Text(text),
            ValueView::Base64(text) => KeyView::Base64(text),
        },
        headers: payload.headers.iter().map(header).collect(),
        value: text_or_base64(shown.as_ref()),
        cut_from_bytes: cut.then_some(value_bytes),
    }
}

fn text_or_base64(bytes: Option<&Bytes>) -> ValueView {
    match bytes.map(|bytes| str::from_utf8(bytes).map_err(|_| bytes)) {
        None => ValueView::Text(None),
        Some(Ok(text)) => ValueView::Text(Some(text.to_owned())),
        Some(Err(bytes)) => ValueView::Base64(STANDARD.encode(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use common::record::Payload;

    use super::*;

    fn record(value: Option<&'static [u8]>) -> Record {
        let key = Some(Bytes::from_static(b"\xff"));
        let headers = vec![Header { name: "content-type".into(), value: Bytes::from_static(b"text/plain") }];
        Record { offset: Offset(7), timestamp: 1_700_000_000_000, payload: Payload { key, value: value.map(Bytes::from_static), headers } }
    }

    #[test]
    fn text_is_shown_as_text_and_the_rest_as_base64() {
        let json = serde_json::to_value(view(&record(Some(b"hello")), MAX_BYTES)).unwrap();
        let expected = serde_json::json!({
            "offset": 7, "timestamp": 1_700_000_000_000_i64, "key_base64": "/w==", "value": "hello",
            "headers": [{"name": "content-type", "value": "text/plain"}],
        });
        assert_eq!(json, expected);
        let json = serde_json::to_value(view(&record(Some(b"\x80")), MAX_BYTES)).unwrap();
        assert_eq!((&json["value_base64"], &json["value"]), (&"gA==".into(), &serde_json::Value::Null));
    }

    #[test]
    fn a_tombstone_is_null_and_an_empty_value_is_empty() {
        let json = serde_json::to_value(view(&record(None), MAX_BYTES)).unwrap();
        assert!(json.as_object().unwrap().contains_key("value") && json["value"].is_null());
        let json = serde_json::to_value(view(&record(Some(b"")), MAX_BYTES)).unwrap();
        assert_eq!(json["value"], "");
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        for value in [None, Some(&b"x"[..]), Some(&b"\xfe"[..])] {
            let written = view(&record(value), MAX_BYTES);
            assert_eq!(serde_json::from_str::<MessageView>(&serde_json::to_string(&written).unwrap()).unwrap(), written);
        }
    }

    #[test]
    fn a_value_larger_than_the_answer_may_be_is_cut_and_says_so() {
        let shown = view(&record(Some(b"0123456789")), 30);
        assert_eq!(shown.cut_from_bytes, Some(10));
        assert_eq!(shown.value, ValueView::Text(Some("0123456".into())));
    }

    #[test]
    fn without_an_offset_the_newest_are_shown() {
        let log = Watermarks { first: Offset(5), end: Offset(12) };
        let from = |offset, limit| start(&Asked { partition: 0, offset, limit }, log).map_err(|problem| problem.kind);
        assert_eq!(from(None, 3), Ok(Offset(9)));
        assert_eq!(from(None, 100), Ok(Offset(5)));
        assert_eq!(from(Some(12), 3), Ok(Offset(12)));
        assert_eq!(from(Some(4), 3), Err(Kind::Malformed));
        assert_eq!(from(Some(13), 3), Err(Kind::Malformed));
    }
}

//! `POST /produce`: the original's dialect. Topic and key are headers, and both are required.

use common::ids::Topic;
use common::problem::{Kind, Problem};
use common::queue::Ack;
use common::record::{Message, Payload};
use http::request::Parts;

use super::metadata::Metadata;
use super::plain::Draft;
use super::query::{Unknown, parameters};
use super::{illegal_topic, malformed, shown};
use crate::message_id::MessageIds;

const TOPIC: &str = "x-kmq-topic";

pub(crate) fn draft(head: &Parts, ids: &MessageIds) -> Result<Draft, Problem> {
    let [format] = parameters(head.uri.query(), ["format"], Unknown::Ignored)?;
    match format.as_deref() {
        None | Some(b"json" | b"") => {}
        Some(other) => {
            let detail = format!("format={} is not understood; json is", shown(&String::from_utf8_lossy(other)));
            return Err(Problem::new(Kind::UnsupportedMediaType, detail));
        }
    }
    let topic = topic(head)?;
    let metadata = Metadata::of_message(&head.headers, ids)?;
    if metadata.key.as_ref().is_none_or(|key| key.is_empty()) {
        return Err(malformed("header X-Kmq-Partition-Key is missing or empty"));
    }
    let payload = Payload { key: metadata.key, value: None, headers: metadata.headers };
    Ok(Draft { message: Message { topic, partition: None, timestamp: None, payload }, ack: Ack::All })
}

/// As the request names it, legal or not; for the answer, which repeats it.
pub(crate) fn asked_topic(head: &Parts) -> String {
    head.headers.get(TOPIC).map(|value| shown(&String::from_utf8_lossy(value.as_bytes())).to_owned()).unwrap_or_default()
}

fn topic(head: &Parts) -> Result<Topic, Problem> {
    let mut given = head.headers.get_all(TOPIC).iter();
    let name = given.next().filter(|value| !value.is_empty()).ok_or_else(|| malformed("header X-Kmq-Topic is missing or empty"))?;
    if given.next().is_some() {
        return Err(malformed("header x-kmq-topic is given twice"));
    }
    Topic::new(&String::from_utf8_lossy(name.as_bytes())).map_err(|error| illegal_topic(&error))
}

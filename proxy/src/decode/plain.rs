//! `POST /topics/{topic}`: the body is the message.

use common::ids::{Partition, Topic};
use common::problem::{Kind, Problem};
use common::queue::Ack;
use common::record::{Message, Payload, TimestampMs};
use http::request::Parts;

use super::metadata::{Metadata, PARTITION_KEY};
use super::query::{self, Unknown, parameters};
use super::{check_timestamp, malformed, shown};
use crate::message_id::MessageIds;

/// A message without its value, which is still on its way.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) message: Message,
    pub(crate) ack: Ack,
}

const PARAMETERS: [&str; 4] = ["key", "partition", "timestamp", "ack"];

pub(crate) fn draft(topic: Topic, head: &Parts, now: TimestampMs, ids: &MessageIds) -> Result<Draft, Problem> {
    refuse_kafka_rest(head)?;
    let [key, partition, timestamp, ack] = parameters(head.uri.query(), PARAMETERS, Unknown::Refused)?;
    let mut metadata = Metadata::of_message(&head.headers, ids)?;
    if let Some(key) = key.map(query::bytes) {
        match &metadata.key {
            Some(other) if *other != key => {
                return Err(malformed(format!("the query's key and the header {PARTITION_KEY} differ; give one of them")));
            }
            _ => metadata.key = Some(key),
        }
    }
    let partition = partition.map(|text| query::number("partition", &text).map(Partition)).transpose()?;
    let timestamp = timestamp.map(|text| check_timestamp(query::number("timestamp", &text)?, now)).transpose()?;
    let payload = Payload { key: metadata.key, value: None, headers: metadata.headers };
    Ok(Draft { message: Message { topic, partition, timestamp, payload }, ack: ack_of(ack.as_deref())? })
}

fn ack_of(text: Option<&[u8]>) -> Result<Ack, Problem> {
    match text {
        None | Some(b"all") => Ok(Ack::All),
        Some(b"none") => Ok(Ack::None),
        Some(other) => Err(malformed(format!("query parameter ack is {:?}; it is all or none", shown(&String::from_utf8_lossy(other))))),
    }
}

/// Stored as it came, such an envelope would be taken for the message.
fn refuse_kafka_rest(head: &Parts) -> Result<(), Problem> {
    const ENVELOPE: &[u8] = b"application/vnd.kafka.";
    let content_type = head.headers.get(http::header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    if content_type.get(..ENVELOPE.len()).is_some_and(|start| start.eq_ignore_ascii_case(ENVELOPE)) {
        let detail = "the Kafka REST dialect is not built yet (content-type application/vnd.kafka.*); \
                      post the message itself, or many to /topics/{topic}/batch";
        return Err(Problem::new(Kind::UnsupportedMediaType, detail));
    }
    Ok(())
}

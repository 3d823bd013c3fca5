//! From a record of the queue to an event of the engine: type, key, time, size, and what delivery
//! needs of the rest.

use std::sync::Arc;

use bytes::Bytes;
use common::config::Serializer;
use common::ids::{Partition, Topic, TopicId};
use common::record::{Header, Payload, Record, header};
use engine::event::{Event, EventType};
use engine::ids::Offset;
use engine::options::EventTypes;
use engine::ports::{Decoded, Decoder};
use http::HeaderValue;
use prometheus_client::metrics::counter::Counter;
use xxhash_rust::xxh3::xxh3_64;

mod envelope;

use self::envelope::Envelope;

/// Where records come from: one partition of one topic, with everything about it that is the same
/// for each of its records. Made once for each partition that is read.
#[derive(Debug)]
pub struct Origin {
    pub topic: Topic,
    pub partition: Partition,
    pub(crate) topic_header: HeaderValue,
    pub(crate) partition_header: HeaderValue,
    /// Of this topic and no other, also one of the same name: part of every `Webhook-Id`.
    pub(crate) identity: u64,
}

impl Origin {
    /// `cluster` tells topics of one name apart where the queue gives them no ids: any text that is
    /// the same for every pusher and after every restart.
    pub fn new(topic: &Topic, id: Option<TopicId>, cluster: &str, partition: Partition) -> Arc<Self> {
        let identity = match id {
            Some(id) => xxh3_64(id.0.as_bytes()),
            None => xxh3_64([cluster, "\0", topic.as_str()].concat().as_bytes()),
        };
        Arc::new(Self {
            topic: topic.clone(),
            partition,
            topic_header: HeaderValue::from_str(topic.as_str()).expect("a topic name is ASCII without control characters"),
            partition_header: HeaderValue::from(partition.0),
            identity,
        })
    }
}

/// What a [`Source`](engine::ports::Source) of this crate yields.
#[derive(Debug)]
pub struct SourcedRecord {
    pub origin: Arc<Origin>,
    pub record: Record,
}

/// What is delivered: the payload of an event.
#[derive(Debug)]
pub struct Delivered {
    pub(crate) origin: Arc<Origin>,
    /// As the queue holds it: what a dead letter keeps.
    pub(crate) stored: Payload,
    /// The body to push; `None` is a tombstone.
    pub(crate) body: Option<Bytes>,
    /// The message's own; `None` if it has none.
    pub(crate) content_type: Option<Bytes>,
    pub(crate) logid: Option<Bytes>,
}

/// Makes events for one group.
#[derive(Debug)]
pub struct RecordDecoder {
    serializer: Serializer,
    pushed_raw: Counter,
}

impl RecordDecoder {
    /// `pushed_raw` counts the records that serializer `json` could not read and pushes as they
    /// are: [`DeliveryMetrics::pushed_raw`](crate::delivery::DeliveryMetrics::pushed_raw).
    pub fn new(serializer: Serializer, pushed_raw: Counter) -> Self {
        Self { serializer, pushed_raw }
    }

    fn envelope(&self, payload: &Payload) -> Option<Envelope> {
        match (self.serializer, &payload.value) {
            (Serializer::Json, Some(value)) if !payload.headers.iter().any(is_ours) => {
                let envelope = Envelope::read(value);
                if envelope.is_none() {
                    self.pushed_raw.inc();
                }
                envelope
            }
            _ => None,
        }
    }
}

impl Decoder for RecordDecoder {
    type Record = SourcedRecord;
    type Payload = Delivered;

    fn decode(&self, SourcedRecord { origin, record }: SourcedRecord, types: &EventTypes) -> Decoded<Delivered> {
        let stored = record.payload;
        let event_type = if types.is_empty() {
            EventType::OTHER
        } else {
            stored.header(header::CE_TYPE).map_or(EventType::OTHER, |name| types.resolve(name))
        };
        let (time_ms, body, content_type, logid) = match self.envelope(&stored) {
            Some(envelope) => {
                let time_ms = envelope.timestamp_ms.unwrap_or(record.timestamp);
                (time_ms, Some(envelope.data), envelope.content_type, envelope.logid)
            }
            None => {
                let own = |name| stored.header(name).cloned();
                (record.timestamp, stored.value.clone(), own(header::CONTENT_TYPE), own(header::LOGID))
            }
        };
        Decoded::Event(Event {
            offset: Offset(record.offset.0),
            key: stored.key.clone(),
            time_ms,
            event_type,
            size_bytes: size_bytes(&stored),
            payload: Delivered { origin, stored, body, content_type, logid },
        })
    }
}

/// Whether our own proxy (or another CloudEvents producer) wrote the record, so that its value is the message itself and
/// no envelope. Trace headers prove nothing, since agents add them to anything; nor do those of a
/// dead letter, which keeps the value as it was.
fn is_ours(Header { name, .. }: &Header) -> bool {
    [header::ID, header::LOGID, header::CONTENT_TYPE].contains(&&**name) || name.starts_with(header::CE_PREFIX)
}

/// What an event holds in memory, in bytes, its bookkeeping included.
fn size_bytes(payload: &Payload) -> usize {
    payload.size_bytes() + size_of::<Event<Delivered>>() + payload.headers.len() * size_of::<Header>()
}

#[cfg(test)]
mod tests;

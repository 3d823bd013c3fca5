//! A message as a producer sends it, and a record as the queue stores and numbers it.

use bytes::Bytes;
use bytestring::ByteString;

use crate::ids::{Offset, Partition, Topic};

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type TimestampMs = i64;

/// Names of the record headers that mqgate itself writes (`contract.md` §7).
pub mod header {
    pub const CONTENT_TYPE: &str = "content-type";
    pub const LOGID: &str = "x-kmq-logid";
    pub const ID: &str = "mqgate-id";
    pub const TRACEPARENT: &str = "traceparent";
    pub const TRACESTATE: &str = "tracestate";
    pub const CE_PREFIX: &str = "ce_";
    pub const CE_TYPE: &str = "ce_type";
    pub const DLQ_PREFIX: &str = "mqgate-dlq-";
}

/// A record header. Names may repeat; their order is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    pub name: ByteString,
    pub value: Bytes,
}

/// What a record carries: everything but its place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Payload {
    /// `None` is no key (no order, any partition); an empty key is a key like any other.
    pub key: Option<Bytes>,
    /// `None` is a tombstone, which is not the same as an empty value.
    pub value: Option<Bytes>,
    pub headers: Vec<Header>,
}

impl Payload {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers.iter().find(|h| h.name == name).map(|h| &h.value)
    }

    /// Key, value and headers together, in bytes: what `max_message_bytes` bounds.
    pub fn size_bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|h| h.name.len() + h.value.len()).sum();
        headers + self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len)
    }
}

/// What a producer sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub topic: Topic,
    /// `None`: the partitioner decides by the key.
    pub partition: Option<Partition>,
    /// `None`: the queue's own clock.
    pub timestamp: Option<TimestampMs>,
    pub payload: Payload,
}

/// What the queue stores. Topic and partition are its reader's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub offset: Offset,
    pub timestamp: TimestampMs,
    pub payload: Payload,
}

//! What travels beside a message's value: from the request's headers to the record's.

use bytes::Bytes;
use bytestring::ByteString;
use common::problem::Problem;
use common::record::{Header, header};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::malformed;
use crate::message_id::MessageIds;

pub(super) const PARTITION_KEY: &str = "x-kmq-partition-key";
const LOGID: &str = "x-kmq-logid";
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const OWN_HEADER: &str = "x-kmq-header-";

const MAX_ID_LENGTH: usize = 256;

/// What the headers of a request for one message say.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// Of `X-Kmq-Partition-Key`.
    pub(super) key: Option<Bytes>,
    pub(super) headers: Vec<Header>,
}

/// Names that mqgate writes itself, each from a request header of its own; `ce_*` is everybody's.
pub(super) fn is_reserved(name: &str) -> bool {
    matches!(name, header::CONTENT_TYPE | header::LOGID | header::ID | header::TRACEPARENT | header::TRACESTATE)
        || name.starts_with(header::DLQ_PREFIX)
}

/// `[A-Za-z0-9_:-]`, 1 to 256 of them.
pub(super) fn check_id(id: &[u8]) -> Result<(), String> {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-');
    match id.len() {
        1..=MAX_ID_LENGTH if id.iter().all(legal) => Ok(()),
        length @ 1..=MAX_ID_LENGTH => Err(format!("of {length} characters has one that is not of A-Z a-z 0-9 _ : -")),
        length => Err(format!("has {length} characters; 1 to {MAX_ID_LENGTH} are allowed")),
    }
}

impl Metadata {
    /// All that is said of one message; its id is made up where none is given.
    pub(super) fn of_message(request: &HeaderMap, ids: &MessageIds) -> Result<Self, Problem> {
        let mut metadata = Self { key: None, headers: Vec::with_capacity(4) };
        let mut id = None;
        for (name, value) in request {
            match name.as_str() {
                "content-type" => metadata.push_once(header::CONTENT_TYPE, name, value)?,
                PARTITION_KEY => once(&mut metadata.key, name, value)?,
                IDEMPOTENCY_KEY => once(&mut id, name, value)?,
                LOGID | header::TRACEPARENT | header::TRACESTATE => metadata.trace(name, value)?,
                _ => metadata.own(name, value)?,
            }
        }
        if let Some(id) = &id {
            check_id(id).map_err(|why| malformed(format!("Idempotency-Key {why}")))?;
        }
        metadata.push(header::ID, id.unwrap_or_else(|| ids.next()));
        Ok(metadata)
    }

    /// What a batch's head says of each of its messages: the trace they belong to. The rest is
    /// said in the lines, and refused here so that nobody takes it for heard.
    pub(super) fn of_batch(request: &HeaderMap) -> Result<(Self, Option<Bytes>), Problem> {
        let (mut metadata, mut id) = (Self::default(), None);
        for (name, value) in request {
            match name.as_str() {
                IDEMPOTENCY_KEY => once(&mut id, name, value)?,
                LOGID | header::TRACEPARENT | header::TRACESTATE => metadata.trace(name, value)?,
                other if other == PARTITION_KEY || other.starts_with(OWN_HEADER) => {
                    return Err(malformed(format!("{other} is for a single message; in a batch each line has its own key and headers")));
                }
                _ => {}
            }
        }
        if let Some(id) = &id {
            check_id(id).map_err(|why| malformed(format!("Idempotency-Key {why}")))?;
        }
        Ok((metadata, id))
    }

    fn push(&mut self, name: &'static str, value: Bytes) {
        self.headers.push(Header { name: ByteString::from_static(name), value });
    }

    fn push_once(&mut self, name: &'static str, given_as: &HeaderName, value: &HeaderValue) -> Result<(), Problem> {
        if self.headers.iter().any(|header| header.name == name) {
            return Err(twice(given_as));
        }
        self.push(name, text(given_as, value)?);
        Ok(())
    }

    fn trace(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), Problem> {
        match name.as_str() {
            LOGID => self.push_once(header::LOGID, name, value),
            header::TRACEPARENT => self.push_once(header::TRACEPARENT, name, value),
            _ => {
                self.tracestate(text(name, value)?);
                Ok(())
            }
        }
    }

    /// It may come in several headers, which are one list (W3C Trace Context, 3.3.1.1).
    fn tracestate(&mut self, value: Bytes) {
        match self.headers.iter_mut().find(|header| header.name == header::TRACESTATE) {
            Some(first) => first.value = [&first.value[..], &value[..]].join(&b","[..]).into(),
            None => self.push(header::TRACESTATE, value),
        }
    }

    /// `X-Kmq-Header-<name>`; what else there is belongs to HTTP and stays here.
    fn own(&mut self, given_as: &HeaderName, value: &HeaderValue) -> Result<(), Problem> {
        let Some(name) = given_as.as_str().strip_prefix(OWN_HEADER) else { return Ok(()) };
        if name.is_empty() || is_reserved(name) {
            let why = if name.is_empty() { "has no name" } else { "is mqgate's own; the request has a header for it" };
            return Err(malformed(format!("X-Kmq-Header-{name}: this record header {why}")));
        }
        let value = text(given_as, value)?;
        self.headers.push(Header { name: name.into(), value });
        Ok(())
    }
}

/// A header's value for the record, where it is UTF-8 text; the content types of most messages cost nothing.
fn text(name: &HeaderName, value: &HeaderValue) -> Result<Bytes, Problem> {
    match value.as_bytes() {
        b"application/json" => Ok(Bytes::from_static(b"application/json")),
        b"application/octet-stream" => Ok(Bytes::from_static(b"application/octet-stream")),
        b"application/x-www-form-urlencoded" => Ok(Bytes::from_static(b"application/x-www-form-urlencoded")),
        b"text/plain" => Ok(Bytes::from_static(b"text/plain")),
        other if str::from_utf8(other).is_ok() => Ok(Bytes::copy_from_slice(other)),
        _ => Err(malformed(format!("header {name} is not UTF-8 text"))),
    }
}

fn once(place: &mut Option<Bytes>, name: &HeaderName, value: &HeaderValue) -> Result<(), Problem> {
    if place.is_some() {
        return Err(twice(name));
    }
    *place = Some(Bytes::copy_from_slice(value.as_bytes()));
    Ok(())
}

fn twice(name: &HeaderName) -> Problem {
    malformed(format!("header {name} is given twice"))
}

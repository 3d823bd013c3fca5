//! One line of a batch: a JSON object around a message, or the message's value as it stands.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use bytestring::ByteString;
use common::ids::{Partition, Topic};
use common::problem::{Kind, Problem};
use common::record::{Header, Message, Payload, TimestampMs, header};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use serde_json::value::RawValue;

use self::envelope::{Envelope, HeaderList, reason};
use super::metadata::{Metadata, check_id};
use super::query::{Unknown, parameters};
use super::{check_timestamp, malformed};
use crate::message_id::MessageIds;

mod envelope;
#[cfg(test)]
mod tests;

const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What the head of a batch says of all of its lines.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) topic: Topic,
    form: Form,
    pub(crate) results: Results,
    /// Repeated in every message.
    trace: Vec<Header>,
    /// Of `Idempotency-Key`: line 7's id is `<id>_7`.
    id: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Envelopes,
    Raw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Results {
    Summary,
    All,
}

pub(crate) fn plan(topic: Topic, head: &Parts) -> Result<Plan, Problem> {
    let [raw, results] = parameters(head.uri.query(), ["raw", "results"], Unknown::Refused)?;
    let form = match raw.as_deref() {
        None | Some(b"false" | b"0") => Form::Envelopes,
        Some(b"" | b"true" | b"1") => Form::Raw,
        Some(_) => return Err(malformed("query parameter raw takes no value")),
    };
    let results = match results.as_deref() {
        None | Some(b"summary") => Results::Summary,
        Some(b"all") => Results::All,
        Some(_) => return Err(malformed("query parameter results is summary or all")),
    };
    if form == Form::Envelopes {
        check_content_type(head)?;
    }
    let (metadata, id) = Metadata::of_batch(&head.headers)?;
    Ok(Plan { topic, form, results, trace: metadata.headers, id })
}

/// None at all is taken for the only type there is.
fn check_content_type(head: &Parts) -> Result<(), Problem> {
    const NDJSON: [&str; 5] =
        ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/json-lines"];
    let mut all = head.headers.get_all(CONTENT_TYPE).iter();
    let Some(given) = all.next() else { return Ok(()) };
    if all.next().is_some() {
        return Err(malformed("header content-type is given twice"));
    }
    let text = given.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    if NDJSON.iter().any(|known| essence.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let detail = format!("content-type {text:?} is not application/x-ndjson; with ?raw each line is a value, whatever its type");
    Err(Problem::new(Kind::UnsupportedMediaType, detail))
}

impl Plan {
    /// The longest line that can hold a message of `max_message_bytes`: base64 takes a third more,
    /// escapes in a string twice as much.
    pub(crate) fn max_line_bytes(&self, max_message_bytes: usize) -> usize {
        const NAMES_AND_QUOTES_BYTES: usize = 64 * 1024;
        match self.form {
            Form::Envelopes => 2 * max_message_bytes + NAMES_AND_QUOTES_BYTES,
            Form::Raw => max_message_bytes,
        }
    }

    /// `None` for a line without anything in it, which is no message.
    pub(crate) fn message(&self, number: u64, line: &Bytes, now: TimestampMs, ids: &MessageIds) -> Result<Option<Message>, Problem> {
        let mut message = match self.form {
            Form::Raw if line.is_empty() => return Ok(None),
            Form::Raw => self.of_payload(Payload { value: Some(line.clone()), ..Payload::default() }),
            Form::Envelopes if line.iter().all(u8::is_ascii_whitespace) => return Ok(None),
            Form::Envelopes => self.of_envelope(line, now)?,
        };
        let headers = &mut message.payload.headers;
        headers.reserve_exact(self.trace.len() + 1);
        for trace in &self.trace {
            if !headers.iter().any(|header| header.name == trace.name) {
                headers.push(trace.clone());
            }
        }
        if !headers.iter().any(|header| header.name == header::ID) {
            headers.push(Header { name: ByteString::from_static(header::ID), value: self.id_of(number, ids) });
        }
        Ok(Some(message))
    }

    fn id_of(&self, number: u64, ids: &MessageIds) -> Bytes {
        match &self.id {
            Some(id) => [&id[..], b"_", number.to_string().as_bytes()].concat().into(),
            None => ids.next(),
        }
    }

    fn of_payload(&self, payload: Payload) -> Message {
        Message { topic: self.topic.clone(), partition: None, timestamp: None, payload }
    }

    fn of_envelope(&self, line: &Bytes, now: TimestampMs) -> Result<Message, Problem> {
        if line.starts_with(BYTE_ORDER_MARK) {
            return Err(malformed("the line begins with a byte order mark (EF BB BF), which is no JSON; leave it out"));
        }
        let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(|error| malformed(reason(&error, 0)))?;
        let mut headers = headers(envelope.headers, line)?;
        let key = key(&envelope, line)?;
        let value = value(&envelope, line, &mut headers)?;
        let mut message = self.of_payload(Payload { key, value, headers });
        message.partition = number(envelope.partition, "partition is not a whole number from 0 to 4294967295")?.map(Partition);
        let timestamp = number(envelope.timestamp, "timestamp is not a whole number; it counts milliseconds since 1970")?;
        message.timestamp = timestamp.map(|timestamp| check_timestamp(timestamp, now)).transpose()?;
        Ok(message)
    }
}

fn key(envelope: &Envelope<'_>, line: &Bytes) -> Result<Option<Bytes>, Problem> {
    match (envelope.key, envelope.key_base64) {
        (Some(_), Some(_)) => Err(malformed("both key and key_base64 are given; give one of them")),
        (None, None) => Ok(None),
        (None, Some(raw)) => base64("key_base64", raw, line).map(Some),
        (Some(raw), None) if raw.get() == "null" => Ok(None),
        (Some(raw), None) if is_string(raw) => text("key", raw, line).map(Some),
        (Some(_), None) => Err(malformed("key is neither a string nor null; key_base64 takes binary keys")),
    }
}

fn value(envelope: &Envelope<'_>, line: &Bytes, headers: &mut Vec<Header>) -> Result<Option<Bytes>, Problem> {
    match (envelope.value, envelope.value_base64) {
        (Some(_), Some(_)) => Err(malformed("both value and value_base64 are given; give one of them")),
        (None, None) => Err(malformed("neither value nor value_base64 is given")),
        (None, Some(raw)) => base64("value_base64", raw, line).map(Some),
        (Some(raw), None) if raw.get() == "null" => Ok(None),
        (Some(raw), None) if is_string(raw) => text("value", raw, line).map(Some),
        (Some(raw), None) => {
            // It is JSON for certain, and its receiver will want to know.
            if !headers.iter().any(|header| header.name == header::CONTENT_TYPE) {
                let json = Bytes::from_static(b"application/json");
                headers.push(Header { name: ByteString::from_static(header::CONTENT_TYPE), value: json });
            }
            Ok(Some(line.slice_ref(raw.get().as_bytes())))
        }
    }
}

fn is_string(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

/// A JSON string's UTF-8 bytes; without escapes they are a slice of the line.
fn text(name: &str, raw: &RawValue, line: &Bytes) -> Result<Bytes, Problem> {
    let quoted = raw.get();
    if memchr::memchr(b'\\', quoted.as_bytes()).is_none() {
        return Ok(line.slice_ref(&quoted.as_bytes()[1..quoted.len() - 1]));
    }
    field::<String>(name, raw, line).map(Bytes::from)
}

fn base64(name: &str, raw: &RawValue, line: &Bytes) -> Result<Bytes, Problem> {
    let text: String = field(name, raw, line)?;
    let decoded = BASE64.decode(text).map(Bytes::from);
    decoded.map_err(|_| malformed(format!("{name} is not base64 (A-Z a-z 0-9 + /, with = at the end or without)")))
}

/// None where it is absent or null.
fn number<T: std::str::FromStr>(raw: Option<&RawValue>, otherwise: &'static str) -> Result<Option<T>, Problem> {
    match raw.map(RawValue::get) {
        None | Some("null") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| malformed(otherwise)),
    }
}

fn field<'a, T: serde::Deserialize<'a>>(name: &str, raw: &'a RawValue, line: &Bytes) -> Result<T, Problem> {
    let place = raw.get().as_ptr().addr() - line.as_ptr().addr();
    serde_json::from_str(raw.get()).map_err(|error| malformed(format!("{name}: {}", reason(&error, place))))
}

fn headers(raw: Option<&RawValue>, line: &Bytes) -> Result<Vec<Header>, Problem> {
    let Some(HeaderList(list)) = raw.map(|raw| field("headers", raw, line)).transpose()?.flatten() else {
        return Ok(Vec::with_capacity(2));
    };
    check_distinct(&list)?;
    let mut headers: Vec<Header> = Vec::with_capacity(list.len() + 2);
    for (name, values) in list {
        check_header(&name, &values)?;
        if name == header::TRACESTATE && !values.is_empty() {
            // One list, however it is cut (W3C Trace Context, 3.3.1.1).
            headers.push(Header { name: name.into(), value: values.join(",").into() });
            continue;
        }
        let name = ByteString::from(name);
        headers.extend(values.into_iter().map(|value| Header { name: name.clone(), value: value.into() }));
    }
    Ok(headers)
}

/// Sorted, since a line has room for a few hundred thousand of them.
fn check_distinct(list: &[(String, Vec<String>)]) -> Result<(), Problem> {
    let mut names: Vec<&str> = list.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(malformed(format!("duplicate field headers.{}; several values of one header are a list", pair[0]))),
    }
}

/// Here mqgate's own names are the way to give a line its content type, its trace and its id.
fn check_header(name: &str, values: &[String]) -> Result<(), Problem> {
    if name.is_empty() {
        return Err(malformed("headers: a header has no name"));
    }
    if name.starts_with(header::DLQ_PREFIX) {
        return Err(malformed(format!("headers.{name} is mqgate's own")));
    }
    match (name, values) {
        (header::ID, [id]) => check_id(id.as_bytes()).map_err(|why| malformed(format!("headers.mqgate-id {why}"))),
        (header::CONTENT_TYPE | header::LOGID | header::TRACEPARENT, [_]) => Ok(()),
        (header::ID | header::CONTENT_TYPE | header::LOGID | header::TRACEPARENT, _) => {
            Err(malformed(format!("headers.{name} is a list; a message has one")))
        }
        _ => Ok(()),
    }
}

//! The request for one attempt, exactly as `contract.md` §2 shows it.

use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use common::config::{GroupConfig, Serializer};
use common::record::header as record_header;
use engine::event::{Attempt, Event};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use percent_encoding::percent_decode_str;

use super::key::{KeyHeader, key_header};
use super::webhook_id::write_webhook_id;
use crate::decode::Delivered;

/// In lower case, as `http` wants them; the client writes them in title case.
mod name {
    use http::HeaderName;

    pub(super) const TOPIC: HeaderName = HeaderName::from_static("x-kmq-topic");
    pub(super) const PARTITION: HeaderName = HeaderName::from_static("x-kmq-partition");
    pub(super) const OFFSET: HeaderName = HeaderName::from_static("x-kmq-offset");
    pub(super) const KEY: HeaderName = HeaderName::from_static("x-kmq-partition-key");
    pub(super) const KEY_ENCODING: HeaderName = HeaderName::from_static("x-kmq-key-encoding");
    pub(super) const LOGID: HeaderName = HeaderName::from_static("x-kmq-logid");
    pub(super) const TIMESTAMP: HeaderName = HeaderName::from_static("x-kmq-timestamp");
    pub(super) const EPOCH: HeaderName = HeaderName::from_static("x-kmq-epoch");
    pub(super) const TOMBSTONE: HeaderName = HeaderName::from_static("x-kmq-tombstone");
    pub(super) const RETRY_TIMES: HeaderName = HeaderName::from_static("x-retry-times");
    pub(super) const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
    pub(super) const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
    pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
    pub(super) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
}

/// Room for every header that a request may have.
const MAX_HEADERS: usize = 20;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("mqgate/", env!("CARGO_PKG_VERSION")));

/// What all requests of a group share.
#[derive(Debug)]
pub(super) struct Template {
    uri: Uri,
    host: HeaderValue,
    /// From a URL with a user name.
    authorization: Option<HeaderValue>,
    /// The group's own, which goes before the message's.
    content_type: Option<HeaderValue>,
    default_content_type: HeaderValue,
}

impl Template {
    pub(super) fn new(group: &GroupConfig) -> Self {
        let default_content_type = match group.serializer {
            Serializer::Raw => "application/octet-stream",
            Serializer::Json => "application/x-www-form-urlencoded",
        };
        let authority = group.url.authority().map_or("", Authority::as_str);
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        Self {
            uri: without_user(&group.url, host),
            host: HeaderValue::from_str(host).expect("what a URI has as its host is legal in a header"),
            authorization: user.map(basic),
            content_type: group.content_type.clone(),
            default_content_type: HeaderValue::from_static(default_content_type),
        }
    }

    pub(super) fn request(&self, event: &Event<Delivered>, attempt: Attempt, now: SystemTime) -> Request<Full<Bytes>> {
        let body = event.payload.body.clone();
        let tombstone = body.is_none();
        let body = body.unwrap_or_default();
        let mut headers = HeaderMap::with_capacity(MAX_HEADERS);
        let mut texts = Texts::default();
        self.common(event, &mut headers, texts.number(body.len()));
        of_record(event, attempt, now, &mut headers, texts);
        if tombstone {
            headers.insert(name::TOMBSTONE, HeaderValue::from_static("true"));
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request
    }

    fn common(&self, event: &Event<Delivered>, headers: &mut HeaderMap, content_length: HeaderValue) {
        headers.insert(HOST, self.host.clone());
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let own =
            || event.payload.content_type.clone().filter(|own| !own.is_empty()).and_then(|own| HeaderValue::from_maybe_shared(own).ok());
        let content_type = self.content_type.clone().or_else(own).unwrap_or_else(|| self.default_content_type.clone());
        headers.insert(CONTENT_TYPE, content_type);
        headers.insert(CONTENT_LENGTH, content_length);
        headers.insert(USER_AGENT, AGENT);
    }
}

fn of_record(event: &Event<Delivered>, attempt: Attempt, now: SystemTime, headers: &mut HeaderMap, mut texts: Texts) {
    let Delivered { origin, stored, logid, .. } = &event.payload;
    headers.insert(name::TOPIC, origin.topic_header.clone());
    headers.insert(name::PARTITION, origin.partition_header.clone());
    headers.insert(name::OFFSET, texts.number(event.offset.0));
    let key = event.key.as_ref().map(key_header);
    let percent = matches!(key, Some(KeyHeader::Percent(_)));
    if let Some(KeyHeader::AsItIs(key) | KeyHeader::Percent(key)) = key {
        headers.insert(name::KEY, key);
    }
    headers.insert(name::LOGID, logid.as_ref().map_or(HeaderValue::from_static(""), legal));
    headers.insert(name::TIMESTAMP, texts.number(event.time_ms));
    headers.insert(name::RETRY_TIMES, texts.number(attempt.number));
    headers.insert(name::WEBHOOK_ID, texts.written(|text| write_webhook_id(event, text)));
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    headers.insert(name::WEBHOOK_TIMESTAMP, texts.number(seconds));
    headers.insert(name::EPOCH, texts.number(attempt.epoch.0));
    if percent {
        headers.insert(name::KEY_ENCODING, HeaderValue::from_static("percent"));
    }
    for (trace, name) in [(record_header::TRACEPARENT, name::TRACEPARENT), (record_header::TRACESTATE, name::TRACESTATE)] {
        pass(stored.header(trace), name, headers);
    }
}

/// Left out if it is no legal header value.
fn pass(value: Option<&Bytes>, name: HeaderName, headers: &mut HeaderMap) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_maybe_shared(value.clone()).ok()) {
        headers.insert(name, value);
    }
}

/// A value for people: what no header may carry becomes `?`.
fn legal(value: &Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(value.clone()).unwrap_or_else(|_| {
        let cleaned: Vec<u8> = value.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }).collect();
        HeaderValue::from_maybe_shared(Bytes::from(cleaned)).expect("nothing but control characters is illegal")
    })
}

/// Header values written one after the other into one allocation.
struct Texts(BytesMut);

impl Default for Texts {
    fn default() -> Self {
        Self(BytesMut::with_capacity(160))
    }
}

impl Texts {
    fn number(&mut self, number: impl itoa::Integer) -> HeaderValue {
        self.written(|text| text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()))
    }

    /// `write` appends visible ASCII alone.
    fn written(&mut self, write: impl FnOnce(&mut BytesMut)) -> HeaderValue {
        write(&mut self.0);
        HeaderValue::from_maybe_shared(self.0.split().freeze()).expect("visible ASCII is legal in a header")
    }
}

/// The credentials of `user:password@` as Go's client, and so the original, sends them.
fn basic(user: &str) -> HeaderValue {
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let decoded: Vec<u8> = percent_decode_str(user).chain([b':']).chain(percent_decode_str(password)).collect();
    let mut value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(decoded))).expect("base64 is visible ASCII");
    value.set_sensitive(true);
    value
}

fn without_user(url: &Uri, host: &str) -> Uri {
    let mut parts = url.clone().into_parts();
    parts.authority = host.parse().ok();
    Uri::from_parts(parts).unwrap_or_else(|_| url.clone())
}

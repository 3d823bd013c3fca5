//! A refusal as HTTP clients see it: `application/problem+json` (RFC 9457), one shape on every port.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;

/// Problem types are names, not pages: a URN with the code as its fragment.
const TYPE: &str = "urn:mqgate:problem#";

/// Retry-After in seconds where nobody knows better, before it is spread.
const RETRY_AFTER_SECONDS: u32 = 2;

/// What kinds of refusal there are. A client decides by the code, never by the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Malformed,
    Unauthorized,
    Forbidden,
    NotFound,
    UnknownTopic,
    UnknownPartition,
    UnknownGroup,
    MethodNotAllowed,
    BodyTimeout,
    Exists,
    TooLarge,
    UnsupportedMediaType,
    UnsupportedEncoding,
    ExpectationFailed,
    IllegalTopic,
    RecordRefused,
    RateLimited,
    Internal,
    Unavailable,
    LocalQueueFull,
    TooManyInFlight,
    TooManyTopics,
    DiskFull,
    StorageFailed,
    ShuttingDown,
    NoAcknowledgement,
}

impl Kind {
    /// The table: status, code, title, and whether the same request may succeed later.
    const fn row(self) -> (u16, &'static str, &'static str, bool) {
        match self {
            Self::Malformed => (400, "malformed", "Malformed request", false),
            Self::Unauthorized => (401, "unauthorized", "No token, or one that is not known", false),
            Self::Forbidden => (403, "forbidden", "Not allowed", false),
            Self::NotFound => (404, "not_found", "No such resource", false),
            Self::UnknownTopic => (404, "unknown_topic", "Unknown topic", false),
            Self::UnknownPartition => (404, "unknown_partition", "Unknown partition", false),
            Self::UnknownGroup => (404, "unknown_group", "Unknown group", false),
            Self::MethodNotAllowed => (405, "method_not_allowed", "Method not allowed", false),
            Self::BodyTimeout => (408, "body_timeout", "The body came too slowly", true),
            Self::Exists => (409, "exists", "Exists already", false),
            Self::TooLarge => (413, "too_large", "Too large", false),
            Self::UnsupportedMediaType => (415, "unsupported_media_type", "Content type not understood", false),
            Self::UnsupportedEncoding => (415, "unsupported_encoding", "Content encoding not understood", false),
            Self::ExpectationFailed => (417, "expectation_failed", "Expectation not understood", false),
            Self::IllegalTopic => (422, "illegal_topic", "Not a legal topic name", false),
            Self::RecordRefused => (422, "record_refused", "The topic refuses this record", false),
            Self::RateLimited => (429, "rate_limited", "Over the rate", true),
            Self::Internal => (500, "internal", "Internal error", false),
            Self::Unavailable => (503, "unavailable", "Not written: the queue is unavailable", true),
            Self::LocalQueueFull => (503, "local_queue_full", "Not written: the local queue is full", true),
            Self::TooManyInFlight => (503, "too_many_in_flight", "Not written: too much in flight", true),
            Self::TooManyTopics => (503, "too_many_topics", "Not written: too many topics", true),
            Self::DiskFull => (503, "disk_full", "Not written: the disk is full", true),
            Self::StorageFailed => (503, "storage_failed", "Not written: the storage failed", true),
            Self::ShuttingDown => (503, "shutting_down", "Not written: shutting down", true),
            Self::NoAcknowledgement => (504, "no_acknowledgement", "May have been written: no acknowledgement in time", true),
        }
    }

    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.row().0).expect("the table has legal statuses only")
    }

    pub const fn code(self) -> &'static str {
        self.row().1
    }

    /// Whether the same request may succeed later.
    pub const fn retriable(self) -> bool {
        self.row().3
    }
}

/// A refusal of one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    pub kind: Kind,
    /// What was wrong with this request, for a human.
    pub detail: Cow<'static, str>,
    /// Spread already.
    retry_after_seconds: Option<u32>,
    allow: Option<HeaderValue>,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    retriable: bool,
}

impl Problem {
    pub fn new(kind: Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        let later = matches!(kind.status(), StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS);
        let retry_after_seconds = later.then(|| spread(RETRY_AFTER_SECONDS, rand::random()));
        Self { kind, detail: detail.into(), retry_after_seconds, allow: None }
    }

    /// In whole seconds, spread by ± 50 % so that the refused do not come back all at once.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after_seconds: Some(spread(seconds, rand::random())), ..self }
    }

    /// The methods that a route knows, `GET,HEAD`.
    #[must_use]
    pub fn allow(self, methods: HeaderValue) -> Self {
        Self { allow: Some(methods), ..self }
    }

    /// `Retry-After`, `Allow` and `WWW-Authenticate`, where the kind has them; also for another
    /// dialect's rendering of the same refusal.
    pub fn headers(&self) -> HeaderMap {
        let challenge = (self.kind == Kind::Unauthorized).then(|| HeaderValue::from_static("Bearer"));
        let named =
            [(RETRY_AFTER, self.retry_after_seconds.map(HeaderValue::from)), (ALLOW, self.allow.clone()), (WWW_AUTHENTICATE, challenge)];
        named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    pub fn to_json(&self) -> Vec<u8> {
        let (status, code, title, retriable) = self.kind.row();
        let r#type = format!("{TYPE}{}", code.replace('_', "-"));
        let body = Body { r#type, title, status, detail: &self.detail, code, retriable };
        serde_json::to_vec(&body).expect("texts and numbers are always JSON")
    }

    pub fn into_http<B: From<Vec<u8>>>(self) -> http::Response<B> {
        let mut response = http::Response::new(B::from(self.to_json()));
        *response.status_mut() = self.kind.status();
        *response.headers_mut() = self.headers();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.into_http()
    }
}

/// `random` in [0, 1).
fn spread(seconds: u32, random: f64) -> u32 {
    ((f64::from(seconds) * (0.5 + random)).round() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(problem: Problem) -> (http::response::Parts, serde_json::Value) {
        let (parts, body) = problem.into_http::<Vec<u8>>().into_parts();
        (parts, serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn a_refusal_has_the_shape_of_the_contract() {
        let (parts, body) = rendered(Problem::new(Kind::UnknownTopic, "topic \"nope\" does not exist"));
        assert_eq!(parts.status, 404);
        assert_eq!(parts.headers[CONTENT_TYPE], "application/problem+json");
        let expected = serde_json::json!({
            "type": "urn:mqgate:problem#unknown-topic", "title": "Unknown topic", "status": 404,
            "detail": "topic \"nope\" does not exist", "code": "unknown_topic", "retriable": false,
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn certainly_not_written_says_when_to_come_back() {
        for kind in [Kind::DiskFull, Kind::ShuttingDown, Kind::RateLimited] {
            let seconds: u32 = Problem::new(kind, "x").headers()[RETRY_AFTER].to_str().unwrap().parse().unwrap();
            assert!((1..=3).contains(&seconds), "{seconds}");
        }
        assert!(!Problem::new(Kind::NoAcknowledgement, "x").headers().contains_key(RETRY_AFTER));
    }

    #[test]
    fn retry_after_is_spread_by_half_and_never_zero() {
        assert_eq!((spread(10, 0.0), spread(10, 0.5), spread(10, 0.999)), (5, 10, 15));
        assert_eq!(spread(0, 0.0), 1);
        assert_eq!(spread(1, 0.0), 1);
        assert_eq!(Problem::new(Kind::RateLimited, "x").retry_after(0).headers()[RETRY_AFTER], "1");
    }

    #[test]
    fn a_missing_token_names_the_scheme() {
        assert_eq!(Problem::new(Kind::Unauthorized, "x").headers()[WWW_AUTHENTICATE], "Bearer");
    }
}

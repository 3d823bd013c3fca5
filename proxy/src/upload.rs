//! Taking in a body, with a bound on its bytes and on its time.

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::header::EXPECT;
use http::{HeaderMap, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout_at};

use crate::admission::{BytesPermit, Full};

/// Why a body is not there.
#[derive(Debug)]
pub(crate) enum UploadError {
    /// Over so many bytes.
    TooLarge(usize),
    /// It ended before its announced end, or its framing was broken.
    Truncated(hyper::Error),
    TooSlow,
    Full(Full),
}

impl UploadError {
    /// Whether the client did not send what it had announced, or not in time.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self, Self::Truncated(_) | Self::TooSlow)
    }
}

/// What a head says of `Expect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    None,
    /// The client waits for an answer, which reading the body gives.
    Continue,
    Unknown,
}

pub(crate) fn expectation(headers: &HeaderMap, version: Version) -> Expectation {
    match headers.get(EXPECT) {
        // RFC 9110, 10.1.1: HTTP/1.0 does not know it.
        Some(_) if version < Version::HTTP_11 => Expectation::None,
        Some(value) if value.as_bytes().eq_ignore_ascii_case(b"100-continue") => Expectation::Continue,
        Some(_) => Expectation::Unknown,
        None => Expectation::None,
    }
}

/// `None` for a body in chunks.
pub(crate) fn declared_bytes(body: &Incoming) -> Option<usize> {
    body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// The next piece of the body; `None` at its end.
pub(crate) async fn piece(body: &mut Incoming, deadline: Instant) -> Result<Option<Bytes>, UploadError> {
    loop {
        match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(UploadError::TooSlow),
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => return Err(UploadError::Truncated(error)),
            // Trailers say nothing here.
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(_) => continue,
            },
        }
    }
}

/// The whole body. One that came in one piece, as most do, is not copied.
pub(crate) async fn whole(
    body: &mut Incoming,
    max_bytes: usize,
    permit: &mut BytesPermit,
    deadline: Instant,
) -> Result<Bytes, UploadError> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(piece) = piece(body, deadline).await? {
        let bytes = first.len().max(rest.len()) + piece.len();
        if bytes > max_bytes {
            return Err(UploadError::TooLarge(max_bytes));
        }
        permit.grow(piece.len()).map_err(UploadError::Full)?;
        if first.is_empty() && rest.is_empty() {
            first = piece;
            continue;
        }
        if rest.is_empty() {
            // Something has come, so the announced rest is no mere promise.
            rest.reserve(first.len() + declared_bytes(body).map_or(piece.len(), |left| left.min(max_bytes)));
        }
        rest.extend_from_slice(&std::mem::take(&mut first));
        rest.extend_from_slice(&piece);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// Whether nothing of the body is left to come, having thrown away what has come: then the
/// connection can take another request after a refusal.
pub(crate) fn is_spent(body: &mut Incoming) -> bool {
    loop {
        match body.frame().now_or_never() {
            Some(None) => return true,
            Some(Some(Ok(_))) => {}
            Some(Some(Err(_))) | None => return false,
        }
    }
}

//! Axum's extractors, refusing in the shape of [`Problem`] and in words for people who never saw our types.

use std::time::Duration;

use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::problem::{Kind, Problem};

/// From the head of a request to the end of its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Far fewer than there may be connections, so that uploads which never end leave room for `/healthz`.
const MAX_UPLOADS: usize = 64;

static UPLOADS: Semaphore = Semaphore::const_new(MAX_UPLOADS);

/// A JSON object as a body.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

/// The query string.
#[derive(Debug, Clone, Copy)]
pub struct Query<T>(pub T);

/// The variable parts of the path.
#[derive(Debug, Clone, Copy)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = whole_body(request, state, BODY_TIMEOUT).await?;
        // serde would also fill a structure from a list, in the order of its fields.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(Problem::new(Kind::Malformed, "the body is not a JSON object"));
        }
        let axum::Json(value) = axum::Json::from_bytes(&body)?;
        Ok(Self(value))
    }
}

async fn whole_body<S: Send + Sync>(request: Request, state: &S, body_timeout: Duration) -> Result<Bytes, Problem> {
    let _upload = UPLOADS.try_acquire().map_err(|_| {
        Problem::new(Kind::TooManyInFlight, format!("the bodies of {MAX_UPLOADS} requests are on their way to this port already"))
    })?;
    match tokio::time::timeout(body_timeout, Bytes::from_request(request, state)).await {
        Ok(body) => Ok(body?),
        Err(_) => Err(Problem::new(Kind::BodyTimeout, format!("the body did not come within {body_timeout:?}, and nothing was done"))),
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let axum::extract::Query(value) = axum::extract::Query::from_request_parts(parts, state).await?;
        Ok(Self(value))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let axum::extract::Path(value) = axum::extract::Path::from_request_parts(parts, state).await?;
        Ok(Self(value))
    }
}

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Self {
        match rejection.status().as_u16() {
            413 => Self::new(Kind::TooLarge, format!("the body is over {} bytes", super::MAX_BODY_BYTES)),
            _ => Self::new(Kind::Malformed, "the body is not whole, and nothing was done"),
        }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(Kind::Malformed, in_plain_words(&rejection.body_text()))
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(Kind::Malformed, in_plain_words(&rejection.body_text()))
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::new(Kind::Malformed, rejection.body_text())
    }
}

/// What axum, serde and the standard library call things, and what a caller of the API would.
const WORDS: [(&str, &str); 11] = [
    ("Failed to deserialize the JSON body into the target type: ", ""),
    ("Failed to parse the request body as JSON: ", "the body is not JSON: "),
    ("Failed to deserialize query string: ", "in the query: "),
    ("invalid type: map", "it is an object"),
    ("invalid type: sequence", "it is a list"),
    ("invalid type: ", "it is "),
    ("invalid value: ", "it is "),
    ("expected u32", "expected a whole number from 0 to 4294967295"),
    ("invalid digit found in string", "not a whole number from 0"),
    ("cannot parse integer from empty string", "not a whole number from 0"),
    ("number too large to fit in target type", "too large a number"),
];

fn in_plain_words(text: &str) -> String {
    WORDS.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[tokio::test]
    async fn a_body_that_does_not_come_is_408() {
        let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let problem = whole_body(Request::new(never), &(), Duration::from_millis(20)).await.unwrap_err();
        assert_eq!(problem.kind, Kind::BodyTimeout);
        assert!(problem.detail.contains("20ms"), "{}", problem.detail);
    }
}

//! What every admin port has: metrics, health, readiness, and a guard before `/v1`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{ACCEPT, CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Uri};

pub use self::extract::{Json, Path, Query};
pub use self::guard::{Access, OpenToTheNetwork};
pub use self::readiness::{Readiness, Source};
use crate::problem::{Kind, Problem};
use crate::telemetry::{Exposition, Metrics};

mod extract;
mod guard;
mod readiness;

const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Routes below it see their paths without it.
const V1: &str = "/v1";

/// The whole admin port: `v1` is nested under `/v1`, behind `access`; the rest is open.
pub fn router(metrics: Arc<Metrics>, readiness: Readiness, access: Access, v1: Router) -> Router {
    let guarded = v1
        .fallback(async |uri: Uri| not_found(V1, &uri))
        .method_not_allowed_fallback(async |method, uri: Uri| method_not_allowed(&method, V1, &uri))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(access, guard));
    Router::new()
        .route("/metrics", get(scrape).with_state(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready).with_state(readiness))
        .fallback(async |uri: Uri| not_found("", &uri))
        .method_not_allowed_fallback(async |method, uri: Uri| method_not_allowed(&method, "", &uri))
        .nest(V1, guarded)
}

async fn scrape(State(metrics): State<Arc<Metrics>>, headers: HeaderMap) -> Response {
    let exposition = Exposition::preferred(headers.get_all(ACCEPT));
    ([(CONTENT_TYPE, exposition.content_type())], metrics.scrape(exposition).await).into_response()
}

async fn ready(State(readiness): State<Readiness>) -> Response {
    let missing = readiness.missing();
    let status = if missing.is_empty() { http::StatusCode::OK } else { http::StatusCode::SERVICE_UNAVAILABLE };
    (status, [(CACHE_CONTROL, HeaderValue::from_static("no-store"))], axum::Json(missing)).into_response()
}

async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    match access.check(request.method(), request.uri(), request.headers()) {
        Ok(()) => closed_if_late(next.run(request).await),
        Err(problem) => problem.into_response(),
    }
}

/// What is still to come of a body is no next request.
fn closed_if_late(mut response: Response) -> Response {
    if response.status() == Kind::BodyTimeout.status() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn not_found(below: &str, uri: &Uri) -> Problem {
    Problem::new(Kind::NotFound, format!("there is nothing at {below}{}", uri.path()))
}

/// The router adds `Allow`.
fn method_not_allowed(method: &Method, below: &str, uri: &Uri) -> Problem {
    Problem::new(Kind::MethodNotAllowed, format!("{below}{} does not take {method}; the Allow header says what it takes", uri.path()))
}

#[cfg(test)]
mod tests;

//! The admin port as a client sees it.

use axum::body::Body;
use axum::routing::{get, post};
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::*;

struct Port {
    router: Router,
    draining: CancellationToken,
}

#[derive(serde::Deserialize)]
struct Wanted {
    partitions: u32,
}

fn port(missing: fn() -> Vec<String>) -> Port {
    let draining = CancellationToken::new();
    let v1 = Router::new()
        .route("/groups", get(async || "groups"))
        .route(
            "/topics/{topic}",
            post(async |Path(topic): Path<String>, Json(wanted): Json<Wanted>| format!("{topic} {}", wanted.partitions)),
        )
        .route("/page", get(async |Query(wanted): Query<Wanted>| wanted.partitions.to_string()));
    let readiness = Readiness::new(draining.clone(), vec![Box::new(missing)]);
    let access = Access::new("pusher", "127.0.0.1:0".parse().unwrap(), None).unwrap();
    Port { router: router(Arc::new(Metrics::new("9.9.9")), readiness, access, v1), draining }
}

impl Port {
    async fn send(&mut self, method: &str, path: &str, body: impl Into<Body>) -> (http::response::Parts, String) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost").header(CONTENT_TYPE, "application/json");
        let (parts, body) = self.router.call(request.body(body.into()).unwrap()).await.unwrap().into_parts();
        (parts, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }
}

fn well() -> Vec<String> {
    Vec::new()
}

#[tokio::test]
async fn metrics_come_in_the_format_that_is_accepted() {
    let mut port = port(well);
    let (parts, text) = port.send("GET", "/metrics", Body::empty()).await;
    assert_eq!(parts.headers[CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    assert!(text.contains("mqgate_build_info{version=\"9.9.9\"} 1\n"), "{text}");
    let open = Request::get("/metrics").header(ACCEPT, "application/openmetrics-text").body(Body::empty()).unwrap();
    let answer = port.router.call(open).await.unwrap();
    assert_eq!(answer.headers()[CONTENT_TYPE], "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

#[tokio::test]
async fn not_ready_from_the_first_moment_of_draining_but_healthy() {
    let mut port = port(well);
    let (parts, body) = port.send("GET", "/readyz", Body::empty()).await;
    assert_eq!((parts.status, body.as_str()), (StatusCode::OK, "[]"));
    port.draining.cancel();
    let (parts, body) = port.send("GET", "/readyz", Body::empty()).await;
    assert_eq!((parts.status, body.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "[\"draining\"]"));
    assert_eq!(port.send("GET", "/healthz", Body::empty()).await.0.status, StatusCode::OK);
}

#[tokio::test]
async fn readiness_lists_all_that_is_missing() {
    let mut port = port(|| vec!["the queue does not answer".into(), "no group has started".into()]);
    let (parts, body) = port.send("GET", "/readyz", Body::empty()).await;
    assert_eq!(parts.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), json!(["the queue does not answer", "no group has started"]));
}

#[tokio::test]
async fn only_v1_is_guarded() {
    let mut port = port(well);
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/v1/groups", 403), ("/v1/nothing", 403)] {
        let request = Request::get(path).header("host", "evil.example").body(Body::empty()).unwrap();
        assert_eq!(port.router.call(request).await.unwrap().status(), status, "{path}");
    }
}

#[tokio::test]
async fn refusals_of_the_router_have_the_same_shape() {
    let mut port = port(well);
    let cases = [
        ("GET", "/nothing", "", 404, "not_found"),
        ("GET", "/v1/nothing", "", 404, "not_found"),
        ("POST", "/healthz", "", 405, "method_not_allowed"),
        ("GET", "/v1/topics/t", "", 405, "method_not_allowed"),
        ("POST", "/v1/topics/t", "{", 400, "malformed"),
        ("POST", "/v1/topics/t", "{\"partitions\":-1}", 400, "malformed"),
        ("GET", "/v1/page?partitions=x", "", 400, "malformed"),
    ];
    for (method, path, body, status, code) in cases {
        let (parts, text) = port.send(method, path, body).await;
        let problem: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method} {path}: {text:?}"));
        assert_eq!((parts.status.as_u16(), &problem["code"]), (status, &json!(code)), "{method} {path}");
        assert_eq!(parts.headers[CONTENT_TYPE], "application/problem+json");
        if status == 405 {
            assert!(parts.headers.contains_key("allow"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn what_is_not_understood_is_said_in_the_callers_words() {
    let mut port = port(well);
    for (method, path, body, says) in [
        ("POST", "/v1/topics/t", "[2]", "the body is not a JSON object"),
        ("POST", "/v1/topics/t", "", "the body is not a JSON object"),
        ("POST", "/v1/topics/t", "{", "the body is not JSON"),
        ("POST", "/v1/topics/t", "{\"partitions\":\"6\"}", "partitions: it is string \"6\", expected a whole number from 0 to 4294967295"),
        ("POST", "/v1/topics/t", "{\"partitions\":-1}", "partitions: it is integer `-1`, expected a whole number from 0"),
        ("POST", "/v1/topics/t", "{\"partitions\":{}}", "partitions: it is an object, expected a whole number"),
        ("POST", "/v1/topics/t", "{}", "missing field `partitions`"),
        ("GET", "/v1/page?partitions=x", "", "in the query: partitions: not a whole number"),
        ("GET", "/v1/page?partitions=", "", "in the query: partitions: not a whole number"),
        ("GET", "/v1/page?partitions=4294967296", "", "in the query: partitions: too large"),
        ("GET", "/v1/nothing", "", "nothing at /v1/nothing"),
        ("DELETE", "/v1/groups", "", "/v1/groups does not take DELETE"),
    ] {
        let (_, text) = port.send(method, path, body).await;
        let detail = serde_json::from_str::<Value>(&text).unwrap()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(says), "{method} {path} {body}: {detail}");
        assert!(["u32", "struct", "deserialize", "target type"].iter().all(|rust| !detail.contains(rust)), "{detail}");
    }
}

#[tokio::test]
async fn allow_names_the_methods_of_the_route() {
    let mut port = port(well);
    assert_eq!(port.send("DELETE", "/v1/groups", Body::empty()).await.0.headers["allow"], "GET,HEAD");
    assert_eq!(port.send("PUT", "/v1/topics/t", Body::empty()).await.0.headers["allow"], "POST");
}

#[tokio::test]
async fn a_body_over_one_mebibyte_is_too_large() {
    let mut port = port(well);
    let fits = format!("{{\"partitions\":3,\"x\":\"{}\"}}", "x".repeat(MAX_BODY_BYTES - 100));
    assert_eq!(port.send("POST", "/v1/topics/t", fits).await.1, "t 3");
    let (parts, text) = port.send("POST", "/v1/topics/t", vec![b' '; MAX_BODY_BYTES + 1]).await;
    assert_eq!(parts.status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    assert!(text.contains("\"code\":\"too_large\""), "{text}");
}

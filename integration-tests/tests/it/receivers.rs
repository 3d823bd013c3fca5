//! Receivers as people write them.

use std::time::Duration;

use bytes::Bytes;
use integration_tests::gateway::{Setup, group};
use integration_tests::producer::Producer;
use integration_tests::python::PythonReceiver;
use serde_json::{Value, json};

async fn post_four_kinds(producer: &Producer) {
    let bodies: [(&str, Option<&str>); 5] = [
        (r#"{"n": 1}"#, Some("application/json")),
        (r#"{"n": 2, "fail": true}"#, Some("application/json")),
        (r#"{"n": 3}"#, None),
        ("no json", Some("application/json")),
        ("", Some("application/json")),
    ];
    for (body, kind) in bodies {
        let headers: Vec<(&str, &str)> = kind.map(|kind| ("Content-Type", kind)).into_iter().collect();
        producer.plain(Some("k"), &headers, Bytes::from_static(body.as_bytes())).await.unwrap();
    }
}

fn tries(seen: &[Value], body: &str) -> Vec<u64> {
    seen.iter().filter(|s| s["what"] == body).map(|s| s["attempt"].as_u64().unwrap()).collect()
}

#[track_caller]
fn assert_measured_and_typed(seen: &[Value]) {
    for request in seen {
        let body = request["what"].as_str().unwrap();
        assert_eq!(request["length"], body.len().to_string(), "{request}");
        assert_eq!(request["chunked"], false, "{request}");
        let kind = if body == r#"{"n": 3}"# { "application/octet-stream" } else { "application/json" };
        assert_eq!(request["type"], kind, "{request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flask_handler_gets_json_and_what_it_refuses_is_given_up_after_its_round() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = PythonReceiver::start("flask_handler", &dir.path().join("seen"));
    let policy = json!({"retry_times": 2, "retry_backoff": {"initial": "20ms", "max": "20ms"}, "bypass_failed": true, "timeout": "5s"});
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &policy)]).start().await;
    post_four_kinds(&Producer::new(gateway.api, "t")).await;
    gateway.until_caught_up("g", Duration::from_secs(15)).await;
    let seen = receiver.seen();
    assert_measured_and_typed(&seen);
    assert_eq!(tries(&seen, r#"{"n": 1}"#), [0]);
    assert_eq!(tries(&seen, r#"{"n": 2, "fail": true}"#), [0], "a 200 with an error text is a success");
    for refused in [r#"{"n": 3}"#, "no json", ""] {
        assert_eq!(tries(&seen, refused), [0, 1, 2], "{refused:?}: Flask's 415 or 400");
    }
    assert_eq!(gateway.metric("mqgate_bypassed_total", &[("reason", "status_4xx")]).await, 3.0);
    assert_eq!(gateway.metric("mqgate_delivered_total", &[]).await, 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_reads_content_length_bytes_gets_every_body_whole() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = PythonReceiver::start("cgi_like", &dir.path().join("seen"));
    let gateway = Setup::groups([group("g", "t", &receiver.url(), &json!({"timeout": "5s"}))]).start().await;
    post_four_kinds(&Producer::new(gateway.api, "t")).await;
    gateway.until_caught_up("g", Duration::from_secs(15)).await;
    let seen = receiver.seen();
    assert_measured_and_typed(&seen);
    let bodies: Vec<&str> = seen.iter().map(|s| s["what"].as_str().unwrap()).collect();
    assert_eq!(bodies, [r#"{"n": 1}"#, r#"{"n": 2, "fail": true}"#, r#"{"n": 3}"#, "no json", ""]);
}

//! Paths, topic names and methods.

use std::time::{Duration, Instant};

use integration_tests::gateway::{Gateway, Setup};
use integration_tests::raw::{Connection, Reply};
use serde_json::json;

async fn ask(gateway: &Gateway, method: &str, target: &str, headers: &str) -> (Reply, Duration) {
    let mut connection = Connection::open(gateway.api).await;
    let started = Instant::now();
    connection.send(format!("{method} {target} HTTP/1.1\r\nHost: gw\r\nContent-Length: 2\r\n{headers}\r\nhi")).await;
    // The answer to HEAD announces a body that does not come.
    if method == "HEAD" {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut bytes = vec![0; 16 << 10];
        let n = connection.stream.try_read(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
        let status = integration_tests::raw::status(head).unwrap();
        return (Reply { status, head: format!("{head}\r\n"), body: body.to_owned() }, started.elapsed());
    }
    (connection.reply(Duration::from_secs(2)).await.expect("an answer"), started.elapsed())
}

/// Where topics are made by messages, so that a name that gets through would show.
async fn gateway() -> Gateway {
    let gateway = Setup::default().embedded("partitions", json!(1)).start().await;
    for topic in ["t1", "a-b"] {
        gateway.create_topic(topic, 1).await;
    }
    gateway
}

async fn topics(gateway: &Gateway) -> Vec<String> {
    let all = gateway.admin_get("/v1/topics").await;
    let mut names: Vec<String> = all["topics"].as_array().unwrap().iter().map(|t| t["topic"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_none_is_refused_fast_and_leaves_no_trace() {
    let gateway = gateway().await;
    let long = format!("/topics/{}", "x".repeat(250));
    let cases = [
        ("/topics/a%2Fb", 422),
        ("/topics/a%20b", 422),
        ("/topics/%2e%2e", 422),
        ("/topics/..", 422),
        ("/topics/a%00b", 422),
        ("/topics/%C3%A9", 422),
        ("/topics/%ZZ", 400),
        (long.as_str(), 422),
        ("/topics/", 404),
        ("/topics", 404),
        ("/topics/t1/", 404),
        ("/topics/t1?x=1", 400),
        ("/topics//t1", 404),
    ];
    let series = async || gateway.metrics().await.lines().filter(|l| !l.starts_with('#')).count();
    ask(&gateway, "POST", "/topics/t1", "").await;
    let before = series().await;
    for (target, status) in cases {
        let mut fastest = Duration::MAX;
        for _ in 0..3 {
            let (reply, took) = ask(&gateway, "POST", target, "").await;
            assert_eq!(reply.status, status, "{target}: {reply:?}");
            assert!(reply.body.contains("\"detail\""), "{target}: {reply:?}");
            fastest = fastest.min(took);
        }
        assert!(fastest < Duration::from_millis(50), "{target}: {fastest:?}");
    }
    assert_eq!(topics(&gateway).await, ["a-b", "t1"]);
    assert_eq!(series().await, before, "no series was made");
    assert_eq!(gateway.written("t1").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_decoded_once_and_kept_as_it_is() {
    let gateway = gateway().await;
    for (target, topic) in [("/topics/a%2Db", "a-b"), ("/topics/T1", "T1"), (&format!("/topics/{}", "y".repeat(249)), &"y".repeat(249))] {
        let (reply, _) = ask(&gateway, "POST", target, "").await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(reply.body.contains(&format!("\"topic\":\"{topic}\"")), "{reply:?}");
        assert_eq!(gateway.written(topic).await, 1);
    }
    assert_eq!(gateway.written("t1").await, 0, "T1 is another topic");
    let (reply, _) = ask(&gateway, "POST", "/topics/a%252Db", "").await;
    assert_eq!(reply.status, 422, "decoded once: {reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_post_produces() {
    let gateway = gateway().await;
    let preflight = "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n";
    for target in ["/topics/t1", "/produce", "/topics/t1/batch"] {
        for (method, headers) in [
            ("OPTIONS", ""),
            ("OPTIONS", preflight),
            ("HEAD", ""),
            ("GET", ""),
            ("PUT", ""),
            ("DELETE", ""),
            ("post", ""),
            ("Post", ""),
            ("BREW", ""),
        ] {
            let named = format!("{headers}X-Kmq-Topic: t1\r\nX-Kmq-Partition-Key: k\r\n");
            let (reply, _) = ask(&gateway, method, target, &named).await;
            assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")), "{method} {target}: {reply:?}");
            assert!(method != "HEAD" || reply.body.is_empty(), "HEAD has no body: {reply:?}");
            assert_eq!(reply.header("access-control-allow-origin"), None, "no web page is let in: {reply:?}");
        }
    }
    assert_eq!(gateway.written("t1").await, 0);
}

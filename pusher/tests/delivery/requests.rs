//! What is sent, byte for byte.

use common::config::Serializer;
use engine::event::Outcome;

use super::bench::{Bench, decoded, event, group, payload};
use super::receiver::{Receiver, Request, ok};

/// One delivery of that record; what the receiver read.
async fn pushed(serializer: Serializer, payload: common::record::Payload) -> Request {
    let receiver = Receiver::start(|_| vec![ok()]).await;
    let mut group = group(&receiver.url());
    group.serializer = serializer;
    assert_eq!(Bench::new(&group).process(&decoded(serializer, payload)).await, Outcome::Done);
    receiver.requests().pop().unwrap()
}

#[tokio::test]
async fn a_request_is_what_the_contract_shows() {
    let headers: [(&str, &[u8]); 5] = [
        ("content-type", b"application/json"),
        ("x-kmq-logid", b"log-1"),
        ("mqgate-id", b"order:17"),
        ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("tracestate", b"a=b"),
    ];
    let request = pushed(Serializer::Raw, payload(Some("user 8555"), Some(b"{\"a\": 1}\r\n"), &headers)).await;
    let sent_at = request.header("Webhook-Timestamp").unwrap().to_owned();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((now - 10..=now).contains(&sent_at.parse().unwrap()));
    let host = request.header("Host").unwrap().to_owned();
    let expected = format!(
        "POST /cb?a=1 HTTP/1.1\r\n\
         Host: {host}\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 10\r\n\
         User-Agent: mqgate/{version}\r\n\
         X-Kmq-Topic: t\r\n\
         X-Kmq-Partition: 3\r\n\
         X-Kmq-Offset: 81\r\n\
         X-Kmq-Partition-Key: user 8555\r\n\
         X-Kmq-Logid: log-1\r\n\
         X-Kmq-Timestamp: 1700000000123\r\n\
         X-Retry-Times: 0\r\n\
         Webhook-Id: order:17\r\n\
         Webhook-Timestamp: {sent_at}\r\n\
         X-Kmq-Epoch: 9\r\n\
         Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\
         Tracestate: a=b\r\n\
         \r\n",
        version = env!("CARGO_PKG_VERSION"),
    );
    assert_eq!(request.head, expected);
    assert_eq!(request.body, b"{\"a\": 1}\r\n");
}

#[tokio::test]
async fn null_and_empty_keys_and_the_text_null_are_told_apart() {
    let key = async |key| pushed(Serializer::Raw, payload(key, Some(b"v"), &[])).await;
    assert_eq!(key(None).await.header("X-Kmq-Partition-Key"), None);
    assert_eq!(key(Some("")).await.header("X-Kmq-Partition-Key"), Some(""));
    assert_eq!(key(Some("null")).await.header("X-Kmq-Partition-Key"), Some("null"));
}

#[tokio::test]
async fn a_key_that_no_header_can_carry_is_percent_encoded_and_says_so() {
    let request = pushed(Serializer::Raw, payload(Some("é%"), Some(b"v"), &[])).await;
    assert_eq!(request.header("X-Kmq-Partition-Key"), Some("%C3%A9%25"));
    assert_eq!(request.header("X-Kmq-Key-Encoding"), Some("percent"));
}

#[tokio::test]
async fn a_tombstone_is_told_from_an_empty_message_and_both_have_a_length() {
    let tombstone = pushed(Serializer::Raw, payload(Some("k1"), None, &[])).await;
    assert_eq!((tombstone.header("X-Kmq-Tombstone"), tombstone.header("Content-Length")), (Some("true"), Some("0")));
    let empty = pushed(Serializer::Raw, payload(Some("k1"), Some(b""), &[])).await;
    assert_eq!((empty.header("X-Kmq-Tombstone"), empty.header("Content-Length")), (None, Some("0")));
    assert!(!empty.head.contains("Transfer-Encoding"));
}

#[tokio::test]
async fn a_large_message_is_sent_whole_and_never_chunked() {
    let value: Vec<u8> = (0..3_000_000_u32).map(|at| at.to_le_bytes()[at as usize % 4]).collect();
    let request = pushed(Serializer::Raw, payload(None, Some(&value), &[])).await;
    assert_eq!(request.header("Content-Length"), Some("3000000"));
    assert!(!request.head.contains("Transfer-Encoding"));
    assert!(request.body == value);
}

#[tokio::test]
async fn the_content_type_is_the_groups_else_the_messages_else_the_serializers() {
    let plain = payload(None, Some(b"n=1"), &[]);
    let typed = payload(None, Some(b"n=1"), &[("content-type", b"text/x")]);
    let broken = payload(None, Some(b"n=1"), &[("content-type", b"a\r\nX-Evil: 1")]);
    let of = async |serializer, payload: &common::record::Payload| {
        pushed(serializer, payload.clone()).await.header("Content-Type").unwrap().to_owned()
    };
    assert_eq!(of(Serializer::Raw, &plain).await, "application/octet-stream");
    assert_eq!(of(Serializer::Json, &plain).await, "application/x-www-form-urlencoded");
    assert_eq!(of(Serializer::Raw, &typed).await, "text/x");
    assert_eq!(of(Serializer::Raw, &broken).await, "application/octet-stream");

    let receiver = Receiver::start(|_| vec![ok()]).await;
    let mut group = group(&receiver.url());
    group.content_type = Some("application/json".parse().unwrap());
    Bench::new(&group).process(&decoded(Serializer::Raw, typed)).await;
    assert_eq!(receiver.requests()[0].header("Content-Type"), Some("application/json"));
}

#[tokio::test]
async fn serializer_json_pushes_what_was_posted_to_the_original() {
    let value =
        br#"{"Topic":"t","PartitionKey":"8555","TimeStamp":1450000000123,"Data":"n=8555\u0026m=1","LogId":"12345","ContentType":""}"#;
    let request = pushed(Serializer::Json, payload(Some("8555"), Some(value), &[])).await;
    assert_eq!(request.body, b"n=8555&m=1");
    assert_eq!(request.header("X-Kmq-Logid"), Some("12345"));
    assert_eq!(request.header("X-Kmq-Timestamp"), Some("1450000000123"));
    assert_eq!(request.header("Content-Type"), Some("application/x-www-form-urlencoded"));
}

#[tokio::test]
async fn metadata_that_no_header_can_carry_splits_no_request() {
    let evil: &[u8] = b"a\r\nX-Evil: 1";
    let headers = [("x-kmq-logid", evil), ("traceparent", evil), ("mqgate-id", evil)];
    let request = pushed(Serializer::Raw, payload(None, Some(b"v"), &headers)).await;
    assert_eq!(request.header("X-Kmq-Logid"), Some("a??X-Evil: 1"));
    assert_eq!(request.header("Traceparent"), None);
    assert_eq!(request.header("X-Evil"), None);
}

#[tokio::test]
async fn a_record_without_an_id_gets_a_stable_one_without_dots() {
    let receiver = Receiver::start(|_| vec![ok()]).await;
    let bench = Bench::to(&receiver.url());
    bench.attempt(&event("v"), 0).await;
    bench.attempt(&event("v"), 1).await;
    let requests = receiver.requests();
    let id = requests[0].header("Webhook-Id").unwrap();
    assert_eq!(requests[1].header("Webhook-Id"), Some(id));
    let [hash, "3", "81"] = id.split('_').collect::<Vec<_>>()[..] else { panic!("{id}") };
    assert!(hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(id, "2fe4fd2d429c9645_3_81", "ids stay what they are in every version: receivers remember them");
}

#[tokio::test]
async fn a_user_name_in_the_url_becomes_credentials_and_no_host() {
    let receiver = Receiver::start(|_| vec![ok()]).await;
    let url = format!("http://al%40ice:pass@{}/cb", receiver.address);
    assert_eq!(Bench::to(&url).process(&event("v")).await, Outcome::Done);
    let request = receiver.requests().pop().unwrap();
    assert_eq!(request.header("Authorization"), Some("Basic YWxAaWNlOnBhc3M="));
    assert_eq!(request.header("Host"), Some(receiver.address.to_string().as_str()));
}

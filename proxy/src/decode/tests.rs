#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use common::ids::{Partition, Topic};
use common::problem::{Kind, Problem};
use common::queue::Ack;
use common::record::header;
use http::Request;
use http::request::Parts;

use super::plain::Draft;
use super::{TimestampMs, original, plain, topic_of_path};
use crate::message_id::MessageIds;

const NOW: TimestampMs = 1_700_000_000_000;

fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::post(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn drafted(uri: &str, headers: &[(&str, &str)]) -> Result<Draft, Problem> {
    plain::draft(Topic::new("t").unwrap(), &head(uri, headers), NOW, &MessageIds::new())
}

fn key(uri: &str, headers: &[(&str, &str)]) -> Option<Bytes> {
    drafted(uri, headers).unwrap().message.payload.key
}

fn malformed(uri: &str, headers: &[(&str, &str)]) -> String {
    let problem = drafted(uri, headers).unwrap_err();
    assert_eq!(problem.kind, Kind::Malformed);
    problem.detail.into_owned()
}

fn record_headers(draft: &Draft) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    draft.message.payload.headers.iter().map(|h| (h.name.to_string(), text(&h.value))).collect()
}

/// C02
#[test]
fn a_key_is_absent_or_empty_or_bytes() {
    assert_eq!(key("/topics/t", &[]), None);
    assert_eq!(key("/topics/t?key=", &[]).unwrap(), "");
    assert_eq!(key("/topics/t", &[("x-kmq-partition-key", "")]).unwrap(), "");
    assert_eq!(key("/topics/t?key=null", &[]).unwrap(), "null");
    assert_eq!(key("/topics/t?key=a+b%2B%FF", &[]).unwrap(), b"a b+\xFF"[..]);
    assert_eq!(key("/topics/t", &[("x-kmq-partition-key", "a+b%2B")]).unwrap(), "a+b%2B");
}

#[test]
fn two_keys_must_be_one() {
    assert_eq!(key("/topics/t?key=a", &[("x-kmq-partition-key", "a")]).unwrap(), "a");
    assert!(malformed("/topics/t?key=a", &[("x-kmq-partition-key", "b")]).contains("differ"));
    assert!(malformed("/topics/t?key=", &[("x-kmq-partition-key", "b")]).contains("differ"));
    assert!(malformed("/topics/t", &[("x-kmq-partition-key", "a"), ("x-kmq-partition-key", "a")]).contains("twice"));
}

#[test]
fn place_and_acknowledgement_come_from_the_query() {
    let draft = drafted(&format!("/topics/t?partition=3&timestamp={}&ack=none", NOW - 1), &[]).unwrap();
    assert_eq!((draft.message.partition, draft.message.timestamp, draft.ack), (Some(Partition(3)), Some(NOW - 1), Ack::None));
    let draft = drafted("/topics/t?ack=all", &[]).unwrap();
    assert_eq!((draft.message.partition, draft.message.timestamp, draft.ack), (None, None, Ack::All));
    assert!(malformed("/topics/t?ack=1", &[]).contains("all or none"));
    assert!(malformed("/topics/t?partition=x", &[]).contains("partition"));
}

#[test]
fn a_timestamp_in_another_unit_is_refused() {
    for bad in [NOW / 1000, NOW * 1000, NOW - super::DAY_MS - 1, NOW + super::DAY_MS + 1, -1, i64::MIN, i64::MAX] {
        assert!(malformed(&format!("/topics/t?timestamp={bad}"), &[]).contains("within a day"), "{bad}");
    }
    assert!(drafted(&format!("/topics/t?timestamp={}", NOW + super::DAY_MS), &[]).is_ok());
}

#[test]
fn what_travels_beside_the_message_becomes_record_headers() {
    let given = [
        ("Content-Type", "text/x; a=b"),
        ("X-Kmq-Logid", "log"),
        ("traceparent", "00-1"),
        ("tracestate", "a=1"),
        ("tracestate", "b=2"),
        ("Idempotency-Key", "order:17_a-B"),
        ("X-Kmq-Header-CE_Type", "push"),
        ("X-Kmq-Header-x", "1"),
        ("X-Kmq-Header-x", "2"),
        ("Accept", "*/*"),
    ];
    let mut headers = record_headers(&drafted("/topics/t", &given).unwrap());
    headers.sort_by(|(a, _), (b, _)| a.cmp(b)); // stable: repeated ones keep their order
    let expected = [
        ("ce_type", "push"),
        (header::CONTENT_TYPE, "text/x; a=b"),
        (header::ID, "order:17_a-B"),
        (header::TRACEPARENT, "00-1"),
        (header::TRACESTATE, "a=1,b=2"),
        ("x", "1"),
        ("x", "2"),
        (header::LOGID, "log"),
    ];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn what_a_message_has_one_of_is_not_given_twice() {
    for name in ["content-type", "x-kmq-logid", "traceparent", "idempotency-key", "x-kmq-partition-key"] {
        assert_eq!(malformed("/topics/t", &[(name, "a"), (name, "a")]), format!("header {name} is given twice"));
    }
}

/// Contract, §7.
#[test]
fn what_goes_into_a_record_header_is_utf8_text() {
    let with = |name: &'static str, value: &[u8]| {
        let mut head = head("/topics/t", &[]);
        head.headers.insert(name, http::HeaderValue::from_bytes(value).unwrap());
        plain::draft(Topic::new("t").unwrap(), &head, NOW, &MessageIds::new())
    };
    for name in ["content-type", "x-kmq-logid", "traceparent", "tracestate", "x-kmq-header-a"] {
        assert_eq!(with(name, b"a\xFF").unwrap_err().detail, format!("header {name} is not UTF-8 text"));
        assert!(with(name, "é".as_bytes()).is_ok());
    }
    assert_eq!(with("x-kmq-partition-key", b"\xFF").unwrap().message.payload.key.unwrap(), b"\xFF"[..], "a key is bytes");
}

#[test]
fn an_id_is_made_up_or_given_and_then_legal() {
    let made_up = record_headers(&drafted("/topics/t", &[]).unwrap());
    assert!(matches!(&made_up[..], [(name, id)] if name == header::ID && !id.contains('.')), "{made_up:?}");
    for bad in ["", "a.b", "a b", "\"a\"", &"a".repeat(257)] {
        assert!(malformed("/topics/t", &[("idempotency-key", bad)]).contains("Idempotency-Key"), "{bad:?}");
    }
    assert!(drafted("/topics/t", &[("idempotency-key", &"a".repeat(256))]).is_ok());
}

#[test]
fn reserved_record_headers_are_refused_by_name() {
    for name in ["content-type", "x-kmq-logid", "mqgate-id", "traceparent", "tracestate", "mqgate-dlq-topic", ""] {
        let detail = malformed("/topics/t", &[(&format!("x-kmq-header-{name}"), "a")]);
        assert!(detail.contains(&format!("X-Kmq-Header-{name}")), "{detail}");
    }
}

#[test]
fn an_envelope_that_is_not_understood_is_not_stored_as_a_message() {
    for content_type in ["application/vnd.kafka.json.v2+json", "Application/Vnd.Kafka.avro.v1"] {
        assert_eq!(drafted("/topics/t", &[("content-type", content_type)]).unwrap_err().kind, Kind::UnsupportedMediaType);
    }
    for content_type in ["Application/JSON; Charset=UTF-8", "text/plain", "*", ""] {
        assert!(drafted("/topics/t", &[("content-type", content_type)]).is_ok(), "{content_type}");
    }
}

#[test]
fn the_originals_headers_are_required() {
    let ids = MessageIds::new();
    let drafted = |uri: &str, headers: &[(&str, &str)]| original::draft(&head(uri, headers), &ids);
    let both = [("X-Kmq-Topic", "t"), ("X-Kmq-Partition-Key", "k")];
    for uri in ["/produce", "/produce?format=json", "/produce?format=json&_=123"] {
        let message = drafted(uri, &both).unwrap().message;
        assert_eq!((message.topic.as_str(), message.payload.key.as_deref()), ("t", Some(&b"k"[..])));
    }
    assert_eq!(drafted("/produce?format=msgpack", &both).unwrap_err().kind, Kind::UnsupportedMediaType);
    for (topic, key) in [("", "k"), ("t", "")] {
        let problem = drafted("/produce", &[("X-Kmq-Topic", topic), ("X-Kmq-Partition-Key", key)]).unwrap_err();
        assert_eq!(problem.kind, Kind::Malformed);
    }
    assert_eq!(drafted("/produce", &both[..1]).unwrap_err().kind, Kind::Malformed);
    assert_eq!(drafted("/produce", &both[1..]).unwrap_err().kind, Kind::Malformed);
    assert_eq!(drafted("/produce", &[("X-Kmq-Topic", "a/b"), both[1]]).unwrap_err().kind, Kind::IllegalTopic);
}

/// C15
#[test]
fn a_topic_in_the_path_is_decoded_once_and_then_legal() {
    assert_eq!(topic_of_path("a%2Db").unwrap().as_str(), "a-b");
    assert_eq!(topic_of_path("T1").unwrap().as_str(), "T1");
    assert!(topic_of_path(&"a".repeat(249)).is_ok());
    for illegal in ["a%2Fb", "a%20b", "a+b", "%2e%2e", "..", "a%00b", "%C3%A9", "%FF", "a%252Db", &"a".repeat(250)] {
        assert_eq!(topic_of_path(illegal).unwrap_err().kind, Kind::IllegalTopic, "{illegal}");
    }
    assert_eq!(topic_of_path("%ZZ").unwrap_err().kind, Kind::Malformed);
}

proptest::proptest! {
    #[test]
    fn no_head_makes_the_decoder_panic(query in "[ -~]{0,40}", name in "[a-z-]{1,20}", value in "[ -~]{0,40}") {
        let Ok(uri) = format!("/topics/t?{query}").parse::<http::Uri>() else { return Ok(()) };
        let headers = [(name.as_str(), value.as_str()), ("x-kmq-partition-key", value.as_str()), ("idempotency-key", name.as_str())];
        let _ = drafted(&uri.to_string(), &headers);
        let _ = topic_of_path(&query);
    }
}

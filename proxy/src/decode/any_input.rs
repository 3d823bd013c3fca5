//! Whatever a producer sends: what is accepted is the same message when it is written plainly and read again, and a
//! refusal is short and says what of.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use common::ids::Topic;
use common::problem::Problem;
use common::record::{Header, Message, header};
use fuzz::{config, near, near_text};
use http::Request;
use http::request::Parts;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::batch::{Plan, plan};
use super::{TimestampMs, original, plain, topic_of_path};
use crate::message_id::MessageIds;

const NOW: TimestampMs = 1_700_000_000_000;
/// Of what repeats a part of the request.
const MAX_DETAIL_BYTES: usize = 1_000;

const LINES: [&str; 8] = [
    r#"{"key":"order-17","value":{"a": 1.0, "b":[true,null]},"headers":{"x":"1","y":["2","3"]}}"#,
    r#"{"key":null,"value":null,"partition":3,"timestamp":1700000000001}"#,
    r#"{"key_base64":"AP8=","value_base64":"AAECAw","headers":null}"#,
    r#"{"value":"a\"\u00e9\n\ud83d\ude00","headers":{"mqgate-id":"abc-1","content-type":"text/plain"}}"#,
    r#"{"value":-0.0e-7,"headers":{"tracestate":["a=1","b=2"],"traceparent":"00-1-2-01","x-kmq-logid":"l"}}"#,
    r#" { "value" : "" , "key" : "" } "#,
    r#"{"value":[[[[{"a":{"b":{}}}]]]]}"#,
    "",
];
const WORDS: [&str; 26] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ":",
    ",",
    "null",
    "true",
    "\\u0000",
    "\\ud800",
    "\"key\":",
    "\"value\":",
    "\"value_base64\":",
    "\"headers\":",
    "\"mqgate-id\"",
    "\"mqgate-dlq-group\"",
    "\u{feff}",
    "é",
    "\n",
    " ",
    "-",
    "4294967296",
    "1e400",
    "==",
];
const QUERIES: [&str; 6] = [
    "key=a+b%26%FF%00",
    "partition=3&timestamp=1700000000000&ack=none",
    "key=&ack=all",
    "key=%c3%a9&partition=4294967295",
    "format=json",
    "",
];
const QUERY_WORDS: [&str; 14] =
    ["&", "=", "%", "+", "%00", "%zz", "key", "partition", "timestamp", "ack", "raw", "results=all", "-1", "\u{ff}"];

fn refusal_is_short(problem: &Problem) {
    assert!(!problem.detail.is_empty() && problem.detail.len() <= MAX_DETAIL_BYTES, "{} bytes: {}", problem.detail.len(), problem.detail);
}

fn head(uri: &str, headers: &[(&str, &[u8])]) -> Option<Parts> {
    let request = Request::post(uri);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).ok().map(|request| request.into_parts().0)
}

fn lines_plan() -> Plan {
    plan(Topic::new("t").unwrap(), &head("/topics/t/batch", &[]).unwrap()).unwrap()
}

fn read(line: &[u8]) -> Result<Option<Message>, Problem> {
    lines_plan().message(7, &Bytes::copy_from_slice(line), NOW, &MessageIds::new())
}

/// The message as the plainest line that says it. Header values are UTF-8, as all that come out of JSON.
fn written(message: &Message) -> String {
    let mut headers = Map::new();
    for Header { name, value } in &message.payload.headers {
        let values = headers.entry(name.to_string()).or_insert_with(|| json!([]));
        values.as_array_mut().unwrap().push(str::from_utf8(value).unwrap().into());
    }
    // Those that a message has one of are no lists.
    for value in headers.values_mut().filter(|values| values.as_array().unwrap().len() == 1) {
        *value = value[0].clone();
    }
    let base64 = |bytes: &Bytes| Value::from(BASE64_STANDARD.encode(bytes));
    let mut line = json!({"headers": headers, "partition": message.partition.map(|p| p.0), "timestamp": message.timestamp});
    match &message.payload.value {
        Some(value) => line["value_base64"] = base64(value),
        None => line["value"] = Value::Null,
    }
    message.payload.key.iter().for_each(|key| line["key_base64"] = base64(key));
    line.to_string()
}

/// Order between headers of different names is JSON's to lose.
fn sorted(mut headers: Vec<Header>) -> Vec<Header> {
    headers.sort_by(|a, b| a.name.cmp(&b.name));
    headers
}

#[test]
fn a_line_of_a_hundred_thousand_headers_costs_what_its_length_does() {
    let headers: Map<String, Value> = (0..100_000).map(|n| (format!("h{n}"), Value::from(""))).collect();
    let began = Instant::now();
    let message = read(json!({"value": "x", "headers": headers}).to_string().as_bytes()).unwrap().unwrap();
    assert_eq!(message.payload.headers.len(), 100_001, "and its id");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn a_misspelt_name_as_long_as_a_line_may_be_is_refused_at_once_and_shortly() {
    let began = Instant::now();
    let long = "kye".repeat(500_000);
    let problem = read(json!({(long): "x"}).to_string().as_bytes()).unwrap_err();
    refusal_is_short(&problem);
    assert!(problem.detail.contains("unknown field"), "{}", problem.detail);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_line_that_is_accepted_is_the_same_message_written_plainly(
        line in near(LINES.map(|line| line.as_bytes().to_vec()).to_vec(), &WORDS),
    ) {
        let began = Instant::now();
        match read(&line) {
            Ok(None) => prop_assert!(line.iter().all(u8::is_ascii_whitespace)),
            Ok(Some(message)) => {
                let again = read(written(&message).as_bytes()).unwrap().unwrap();
                prop_assert_eq!((again.partition, again.timestamp), (message.partition, message.timestamp));
                prop_assert_eq!((&again.payload.key, &again.payload.value), (&message.payload.key, &message.payload.value));
                prop_assert_eq!(sorted(again.payload.headers), sorted(message.payload.headers));
            }
            Err(problem) => refusal_is_short(&problem),
        }
        prop_assert!(began.elapsed() < Duration::from_secs(2), "{:?} for {} bytes", began.elapsed(), line.len());
    }

    #[test]
    fn what_was_encoded_is_decoded(key: Option<Vec<u8>>, value: Option<Vec<u8>>, partition: Option<u32>, header in ".{0,20}") {
        let base64 = |bytes: &Vec<u8>| BASE64_STANDARD.encode(bytes);
        let mut line = json!({"partition": partition, "headers": {"h": header}});
        match &value {
            Some(value) => line["value_base64"] = base64(value).into(),
            None => line["value"] = Value::Null,
        }
        key.iter().for_each(|key| line["key_base64"] = base64(key).into());
        let message = read(line.to_string().as_bytes()).unwrap().unwrap();
        prop_assert_eq!(message.payload.key.as_deref(), key.as_deref());
        prop_assert_eq!(message.payload.value.as_deref(), value.as_deref());
        prop_assert_eq!(message.partition.map(|partition| partition.0), partition);
        prop_assert_eq!(message.payload.header("h").unwrap(), header.as_bytes());
    }

    #[test]
    fn a_head_says_the_same_when_it_is_written_plainly(
        query in near_text(&QUERIES, &QUERY_WORDS),
        value in near(vec![b"text/plain; charset=utf-8".to_vec(), b"order-17".to_vec()], &QUERY_WORDS),
        name in near_text(&["x-kmq-header-x", "x-kmq-logid", "idempotency-key", "x-kmq-partition-key", "content-type"], &["-", "x-kmq-header-", "ce_id"]),
    ) {
        let Some(parts) = head(&format!("/topics/t?{query}"), &[(&name, &value), ("x-kmq-topic", b"t")]) else { return Ok(()) };
        match plain::draft(Topic::new("t").unwrap(), &parts, NOW, &MessageIds::new()) {
            Ok(draft) => {
                let Message { partition, timestamp, ref payload, .. } = draft.message;
                let mut plainly = form_urlencoded::Serializer::new(String::new());
                let numbers = [("partition", partition.map(|partition| partition.0.to_string())), ("timestamp", timestamp.map(|t| t.to_string()))];
                plainly.extend_pairs(numbers.into_iter().filter_map(|(name, number)| Some((name, number?))));
                let mut plainly = plainly.finish();
                if let Some(key) = &payload.key {
                    plainly = format!("{plainly}&key={}", percent_encoding::percent_encode(key, percent_encoding::NON_ALPHANUMERIC));
                }
                let id = payload.header(header::ID).unwrap().to_vec();
                // Written so, a key may be longer than a URI can be.
                let Some(parts) = head(&format!("/topics/t?{plainly}"), &[("idempotency-key", &id)]) else { return Ok(()) };
                let again = plain::draft(Topic::new("t").unwrap(), &parts, NOW, &MessageIds::new());
                let again = again.unwrap().message;
                prop_assert_eq!((again.partition, again.timestamp, &again.payload.key), (partition, timestamp, &payload.key));
                prop_assert_eq!(again.payload.header(header::ID).unwrap(), &id);
            }
            Err(problem) => refusal_is_short(&problem),
        }
        match original::draft(&parts, &MessageIds::new()) {
            Ok(draft) => prop_assert!(draft.message.payload.key.is_some_and(|key| !key.is_empty())),
            Err(problem) => refusal_is_short(&problem),
        }
    }

    #[test]
    fn a_topic_of_a_path_is_legal_or_refused(segment in near_text(&["orders", "a.b-c_d", "%41%2e", "..", "%E2%98%83"], &QUERY_WORDS)) {
        match topic_of_path(&segment) {
            Ok(topic) => prop_assert_eq!(topic_of_path(topic.as_str()).unwrap(), topic),
            Err(problem) => refusal_is_short(&problem),
        }
    }
}

#![allow(clippy::unwrap_used)]

use common::record::header;
use http::Request;
use proptest::prelude::*;

use super::*;

const NOW: TimestampMs = 1_700_000_000_000;

fn planned(uri: &str, headers: &[(&str, &str)]) -> Result<Plan, Problem> {
    let mut request = Request::post(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    plan(Topic::new("t").unwrap(), &request.body(()).unwrap().into_parts().0)
}

fn decoded_by(plan: &Plan, line: &str) -> Result<Option<Message>, Problem> {
    plan.message(7, &Bytes::copy_from_slice(line.as_bytes()), NOW, &MessageIds::new())
}

fn decoded(line: &str) -> Message {
    decoded_by(&planned("/topics/t/batch", &[]).unwrap(), line).unwrap().unwrap()
}

fn refused(line: &str) -> String {
    let problem = decoded_by(&planned("/topics/t/batch", &[]).unwrap(), line).unwrap_err();
    assert_eq!(problem.kind, Kind::Malformed);
    problem.detail.into_owned()
}

fn value(line: &str) -> Option<Bytes> {
    decoded(line).payload.value
}

fn header_values(message: &Message, name: &str) -> Vec<Bytes> {
    message.payload.headers.iter().filter(|header| header.name == name).map(|header| header.value.clone()).collect()
}

/// C01, C03: nothing is parsed and written again; a string is its text, null a tombstone.
#[test]
fn values_are_kept_as_they_are_written() {
    for json in [r#"{ "b" :1,  "a":1.0, "u":"\u00e9\/" }"#, "1.0", "-0", "1e400", "true", "[1, 2 ]", r#"{"a":1,"a":2}"#] {
        let message = decoded(&format!("{{\"value\": {json} }}"));
        assert_eq!(message.payload.value.as_deref(), Some(json.as_bytes()));
        assert_eq!(message.payload.header(header::CONTENT_TYPE).map(|v| &v[..]), Some(&b"application/json"[..]));
    }
    assert_eq!(value(r#"{"value":"YWJjZA=="}"#).unwrap(), "YWJjZA==");
    assert_eq!(value(r#"{"value":"a\"\u00e9\n"}"#).unwrap(), "a\"é\n");
    assert_eq!(value(r#"{"value":""}"#).unwrap(), "");
    assert_eq!(value(r#"{"value":null}"#), None);
    assert_eq!(value(r#"{"value":"null"}"#).unwrap(), "null");
    assert_eq!(value(r#"{"value_base64":"AP8="}"#).unwrap(), b"\x00\xFF"[..]);
    assert_eq!(value(r#"{"value_base64":"AP8"}"#).unwrap(), b"\x00\xFF"[..]);
    assert!(decoded(r#"{"value":"x"}"#).payload.header(header::CONTENT_TYPE).is_none());
}

/// C02
#[test]
fn no_key_and_the_empty_key_and_the_text_null_are_three_things() {
    for line in [r#"{"value":1}"#, r#"{"key":null,"value":1}"#] {
        assert_eq!(decoded(line).payload.key, None);
    }
    assert_eq!(decoded(r#"{"key":"","value":1}"#).payload.key.unwrap(), "");
    assert_eq!(decoded(r#"{"key":"null","value":1}"#).payload.key.unwrap(), "null");
    assert_eq!(decoded(r#"{"key_base64":"AA==","value":1}"#).payload.key.unwrap(), b"\x00"[..]);
    assert!(refused(r#"{"key":1,"value":1}"#).contains("key is neither a string nor null"));
    assert!(refused(r#"{"key":"a","key_base64":"AA==","value":1}"#).contains("both key and key_base64"));
}

/// C07
#[test]
fn a_duplicate_field_is_refused_by_its_name() {
    assert!(refused(r#"{"key":"a","key":"b","value":"x"}"#).contains("duplicate field key"));
    assert!(refused(r#"{"value":"x","value":null}"#).contains("duplicate field value"));
    assert!(refused(r#"{"value":1,"headers":{"A":"x","a":"y"}}"#).contains("duplicate field headers.a"));
    assert!(refused(r#"{"value":1,"\u0076alue":2}"#).contains("duplicate field value"));
}

#[test]
fn what_is_no_message_is_refused_with_its_reason() {
    assert!(refused("{}").contains("neither value nor value_base64"));
    assert!(refused(r#"{"value":1,"value_base64":""}"#).contains("both value and value_base64"));
    assert!(refused(r#"{"vlaue":1}"#).contains("did you mean value?"));
    assert!(refused(r#"{"value":1"#).contains("the line ends within an object"));
    assert!(refused(r#"{"value":1} x"#).contains("trailing"));
    assert!(refused(r#"{"value":"a"b"}"#).contains("(character 13)"));
    assert!(refused("[1]").contains("an object"));
    assert!(refused(r#"{"value_base64":"*"}"#).contains("value_base64"));
    assert!(refused(r#"{"value":1,"partition":"0"}"#).contains("partition"));
    assert!(refused(r#"{"value":1,"partition":-1}"#).contains("partition"));
    assert!(refused(r#"{"value":1,"timestamp":1700000000}"#).contains("within a day"));
    assert!(refused(r#"{"value":"\ud800"}"#).contains("value"));
}

#[test]
fn texts_name_the_place_in_the_line_and_no_type_of_ours() {
    for (line, says) in [
        ("\u{feff}{\"value\":1}", "byte order mark"),
        (r#"{"value":"a\ud800"}"#, "(character 18)"),
        (r#"{"value":1,"headers":{"a":1}}"#, "headers: it is integer `1`, expected a string or a list of strings (character 27)"),
        (r#"{"value":1,"headers":[]}"#, "headers: it is a list, expected an object of strings"),
        (r#"{"value":1,"partition":"0"}"#, "partition is not a whole number from 0 to 4294967295"),
        (r#"{"value":1,"partition":1.5}"#, "partition is not a whole number"),
        (r#"{"value":1,"timestamp":"x"}"#, "timestamp is not a whole number; it counts milliseconds"),
        (r#"{"value_base64":"AB=C"}"#, "value_base64 is not base64"),
        (r#"{"key_base64":1,"value":1}"#, "key_base64: it is integer `1`, expected a string"),
    ] {
        let detail = refused(line);
        assert!(detail.contains(says), "{line}: {detail}");
        assert!(["u32", "i64", "symbol", "EOF", "sequence"].iter().all(|rust| !detail.contains(rust)), "{detail}");
    }
}

/// W3C Trace Context, 3.3.1.1: as two request headers of a single message are.
#[test]
fn a_tracestate_in_parts_is_one_list() {
    let message = decoded(r#"{"value":1,"headers":{"tracestate":["a=1","b=2"]}}"#);
    assert_eq!(header_values(&message, header::TRACESTATE), ["a=1,b=2"]);
    assert!(header_values(&decoded(r#"{"value":1,"headers":{"tracestate":[]}}"#), header::TRACESTATE).is_empty());
    for name in ["traceparent", "x-kmq-logid", "Content-Type", "mqgate-id"] {
        assert!(refused(&format!(r#"{{"value":1,"headers":{{"{name}":["a","b"]}}}}"#)).contains("is a list"));
    }
}

#[test]
fn places_and_headers_come_with_the_line() {
    let message = decoded(&format!(r#"{{"headers":{{"CE_Type":"a","x":["1","2"]}},"partition":3,"timestamp":{NOW},"value":1}}"#));
    assert_eq!((message.partition, message.timestamp), (Some(Partition(3)), Some(NOW)));
    assert_eq!(header_values(&message, "ce_type"), ["a"]);
    assert_eq!(header_values(&message, "x"), ["1", "2"]);
    let message = decoded(r#"{"headers":null,"partition":null,"timestamp":null,"value":1}"#);
    assert_eq!((message.partition, message.timestamp), (None, None));
    for bad in [r#"{"":"a"}"#, r#"{"mqgate-dlq-topic":"a"}"#, r#"{"mqgate-id":"a.b"}"#, r#"{"mqgate-id":["a","b"]}"#, r#"{"a":1}"#, "[]"] {
        refused(&format!(r#"{{"value":1,"headers":{bad}}}"#));
    }
}

#[test]
fn a_lines_own_id_and_trace_win_over_the_batchs() {
    let plan = planned("/topics/t/batch", &[("idempotency-key", "import"), ("x-kmq-logid", "L"), ("traceparent", "T")]).unwrap();
    let message = decoded_by(&plan, r#"{"value":1,"headers":{"X-Kmq-Logid":"own"}}"#).unwrap().unwrap();
    assert_eq!(header_values(&message, header::LOGID), ["own"]);
    assert_eq!(header_values(&message, header::TRACEPARENT), ["T"]);
    assert_eq!(header_values(&message, header::ID), ["import_7"]);
    let message = decoded_by(&plan, r#"{"value":1,"headers":{"mqgate-id":"mine"}}"#).unwrap().unwrap();
    assert_eq!(header_values(&message, header::ID), ["mine"]);
}

#[test]
fn raw_lines_are_values_byte_for_byte() {
    let plan = planned("/topics/t/batch?raw", &[("content-type", "text/plain")]).unwrap();
    assert_eq!(decoded_by(&plan, " a\r").unwrap().unwrap().payload.value.unwrap(), " a\r");
    assert_eq!(decoded_by(&plan, "").unwrap(), None);
    assert_eq!(decoded_by(&planned("/topics/t/batch", &[]).unwrap(), " \t\r").unwrap(), None);
}

#[test]
fn the_head_of_a_batch_is_read_strictly() {
    assert_eq!(planned("/topics/t/batch?results=all&raw", &[]).unwrap().results, Results::All);
    assert_eq!(planned("/t?raw=x", &[]).unwrap_err().kind, Kind::Malformed);
    assert_eq!(planned("/t?results=none", &[]).unwrap_err().kind, Kind::Malformed);
    assert_eq!(planned("/t?key=a", &[]).unwrap_err().kind, Kind::Malformed);
    assert_eq!(planned("/t", &[("x-kmq-partition-key", "a")]).unwrap_err().kind, Kind::Malformed);
    assert_eq!(planned("/t", &[("content-type", "application/json")]).unwrap_err().kind, Kind::UnsupportedMediaType);
    assert!(planned("/t", &[("content-type", "Application/X-NDJSON; charset=utf-8")]).is_ok());
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![any::<bool>().prop_map_into(), any::<i64>().prop_map_into(), ".*".prop_map(serde_json::Value::from)];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let map = prop::collection::btree_map(".*", inner.clone(), 0..4);
        prop_oneof![prop::collection::vec(inner, 0..4).prop_map(serde_json::Value::from), map.prop_map(|m| m.into_iter().collect())]
    })
}

proptest! {
    #[test]
    fn no_line_makes_the_decoder_panic(line: Vec<u8>) {
        let plan = planned("/topics/t/batch", &[]).unwrap();
        let _ = plan.message(1, &line.into(), NOW, &MessageIds::new());
    }

    #[test]
    fn what_looks_like_an_envelope_does_not_panic_it_either(line in r#"\{("(key|value|headers|partition|value_base64)":(null|-?[0-9]{1,20}|"[a-z\\u"]{0,6}"|\[\]|\{\}),?){0,4}\}?"#) {
        let plan = planned("/topics/t/batch", &[]).unwrap();
        let _ = plan.message(1, &line.into_bytes().into(), NOW, &MessageIds::new());
    }

    #[test]
    fn keys_and_values_come_back_as_they_went_in(key: Option<String>, json in json(), binary: Vec<u8>) {
        let written = json.to_string();
        let expected = json.as_str().map_or(written.clone(), str::to_owned);
        let message = decoded(&format!("{{\"key\":{},\"value\":{written}}}", serde_json::to_string(&key).unwrap()));
        prop_assert_eq!(message.payload.key, key.map(Bytes::from));
        prop_assert_eq!(message.payload.value.unwrap(), expected);
        let text = base64::engine::general_purpose::STANDARD.encode(&binary);
        prop_assert_eq!(value(&format!("{{\"value_base64\":\"{text}\"}}")).unwrap(), binary);
    }
}

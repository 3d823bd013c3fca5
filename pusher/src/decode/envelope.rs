//! The JSON in which the original MqProxy wrapped every message (`crask/mqproxy`, `producer/kafka/produce.go`):
//! `{"Topic":"t","PartitionKey":"k","TimeStamp":1450000000000,"Data":"…","LogId":"…","ContentType":"…"}`.
//! `Data` is the body as a JSON string, not base64; `LogId` and `ContentType` came with later versions.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;

/// What of an envelope matters to delivery. Topic and key are the record's own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) data: Bytes,
    /// Milliseconds since 1970; `None` where the envelope has no sensible time.
    pub(super) timestamp_ms: Option<i64>,
    pub(super) logid: Option<Bytes>,
    pub(super) content_type: Option<Bytes>,
}

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(rename = "Topic", borrow)]
    _topic: Cow<'a, str>,
    #[serde(rename = "TimeStamp", default)]
    timestamp_ms: i64,
    #[serde(rename = "Data", borrow)]
    data: Cow<'a, str>,
    #[serde(rename = "LogId", borrow, default)]
    logid: Cow<'a, str>,
    #[serde(rename = "ContentType", borrow, default)]
    content_type: Cow<'a, str>,
}

impl Envelope {
    /// `None` if the value is no envelope. Copies only what JSON had to escape.
    pub(super) fn read(value: &Bytes) -> Option<Self> {
        let written: Written<'_> = serde_json::from_slice(value).ok()?;
        Some(Self {
            timestamp_ms: Some(written.timestamp_ms).filter(|time| *time > 0),
            logid: some_of(value, written.logid),
            content_type: some_of(value, written.content_type),
            data: within(value, written.data),
        })
    }
}

fn within(value: &Bytes, text: Cow<'_, str>) -> Bytes {
    match text {
        Cow::Borrowed(text) => value.slice_ref(text.as_bytes()),
        Cow::Owned(text) => text.into(),
    }
}

fn some_of(value: &Bytes, text: Cow<'_, str>) -> Option<Bytes> {
    if text.is_empty() { None } else { Some(within(value, text)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn read(value: &str) -> Option<Envelope> {
        Envelope::read(&Bytes::copy_from_slice(value.as_bytes()))
    }

    #[test]
    fn what_the_original_proxy_wrote_is_read() {
        let go = r#"{"Topic":"yanl","PartitionKey":"8555","TimeStamp":1450000000123,"Data":"n=8555\u0026b=\u003c\"é\n","LogId":"12345","ContentType":"application/x-www-form-urlencoded"}"#;
        let envelope = read(go).unwrap();
        assert_eq!(envelope.data, "n=8555&b=<\"é\n");
        assert_eq!(envelope.timestamp_ms, Some(1_450_000_000_123));
        assert_eq!(envelope.logid.unwrap(), "12345");
        assert_eq!(envelope.content_type.unwrap(), "application/x-www-form-urlencoded");
    }

    #[test]
    fn an_older_version_without_logid_and_content_type_is_read() {
        let envelope = read(r#"{"Topic":"t","PartitionKey":"k","TimeStamp":0,"Data":""}"#).unwrap();
        assert_eq!(envelope, Envelope { data: Bytes::new(), timestamp_ms: None, logid: None, content_type: None });
    }

    #[test]
    fn data_without_escapes_is_not_copied() {
        let value = Bytes::from_static(br#"{"Topic":"t","Data":"plain"}"#);
        let data = Envelope::read(&value).unwrap().data;
        assert!(value.as_ptr_range().contains(&data.as_ptr()));
    }

    #[test]
    fn anything_else_is_no_envelope() {
        for other in
            ["", "n=8555", "null", "[]", "{}", r#"{"Data":"x"}"#, r#"{"Topic":"t","Data":{"a":1}}"#, r#"{"Topic":"t","Data":"x"} y"#]
        {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(Envelope::read(&Bytes::from_static(b"{\"Topic\":\"t\",\"Data\":\"\xff\"}")), None);
    }

    const WRITTEN: [&str; 3] = [
        r#"{"Topic":"yanl","PartitionKey":"8555","TimeStamp":1450000000123,"Data":"n=8555\u0026b=\u003c\"é\n","LogId":"12345","ContentType":"a/b"}"#,
        r#"{"Topic":"t","PartitionKey":"k","TimeStamp":0,"Data":""}"#,
        r#"{"Topic":"t","Data":"plain"}"#,
    ];
    const WORDS: [&str; 16] = [
        "{",
        "}",
        "[",
        "\"",
        "\\",
        ",",
        ":",
        "null",
        "\\u0000",
        "\\ud83d\\ude00",
        "\\ud800",
        "é",
        "\"Data\":",
        "\"LogId\":\"\"",
        "-1",
        "1e3",
    ];

    proptest! {
        #![proptest_config(fuzz::config())]

        #[test]
        fn what_is_read_is_read_again_when_it_is_written_plainly(
            value in fuzz::near(WRITTEN.map(|text| text.as_bytes().to_vec()).to_vec(), &WORDS),
        ) {
            if let Some(envelope) = Envelope::read(&value.into()) {
                let text = |bytes: &Bytes| serde_json::Value::from(str::from_utf8(bytes).unwrap());
                let mut plainly = serde_json::json!({"Topic": "t", "Data": text(&envelope.data), "TimeStamp": envelope.timestamp_ms.unwrap_or(0)});
                envelope.logid.iter().for_each(|logid| plainly["LogId"] = text(logid));
                envelope.content_type.iter().for_each(|content_type| plainly["ContentType"] = text(content_type));
                prop_assert_eq!(read(&plainly.to_string()), Some(envelope));
            }
        }

        #[test]
        fn what_the_original_would_write_is_read(data in ".{0,200}", logid in ".{0,20}", time in 1_i64..) {
            let value = serde_json::json!({"Topic": "t", "PartitionKey": "k", "TimeStamp": time, "Data": data, "LogId": logid, "ContentType": ""});
            let envelope = read(&value.to_string()).unwrap();
            prop_assert_eq!(&envelope.data[..], data.as_bytes());
            prop_assert_eq!(envelope.timestamp_ms, Some(time));
            prop_assert_eq!(envelope.logid.unwrap_or_default(), logid.as_bytes());
        }
    }
}

//! Answers, dialect by dialect.

use std::io::Write;

use bytes::Bytes;
use common::ids::Topic;
use common::problem::Problem;
use common::queue::{Ack, Produced};
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;

use crate::answer::{AnswerBody, Response};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What happens to the connection after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    Kept,
    /// Something of the request may still come, and would be taken for the next one.
    Closed,
}

fn json(status: StatusCode, headers: HeaderMap, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(AnswerBody::Whole(body.into()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// The longest answer about one message: topic names have at most 249 bytes.
const MAX_PLAIN_BYTES: usize = 384;

/// Legal topic names need no escaping.
pub(crate) fn plain(topic: &Topic, produced: Produced, ack: Ack) -> Response {
    let mut room = [0; MAX_PLAIN_BYTES];
    let mut rest = &mut room[..];
    let Produced { partition, offset, timestamp } = produced;
    let (status, written) = match ack {
        Ack::All => {
            let place = format_args!("{{\"topic\":\"{topic}\",\"partition\":{partition},\"offset\":{offset},\"timestamp\":{timestamp}}}");
            (StatusCode::OK, rest.write_fmt(place))
        }
        Ack::None => (StatusCode::ACCEPTED, rest.write_fmt(format_args!("{{\"topic\":\"{topic}\"}}"))),
    };
    written.expect("there is room for the longest");
    let left = rest.len();
    json(status, HeaderMap::with_capacity(1), Bytes::copy_from_slice(&room[..MAX_PLAIN_BYTES - left]))
}

/// Always of this shape, so that the original's clients can read it.
#[derive(Serialize)]
struct Original<'a> {
    errno: i32,
    errmsg: &'a str,
    data: OriginalData<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct OriginalData<'a> {
    topic: &'a str,
    /// -1 where there is none.
    partition: i64,
    offset: i64,
}

pub(crate) fn original(topic: &Topic, produced: Produced) -> Response {
    let offset = i64::try_from(produced.offset.0).unwrap_or(i64::MAX);
    let data = OriginalData { topic: topic.as_str(), partition: produced.partition.0.into(), offset };
    let body = serde_json::to_vec(&Original { errno: 0, errmsg: "ok", data }).expect("texts and numbers are always JSON");
    json(StatusCode::OK, HeaderMap::with_capacity(1), body)
}

pub(crate) fn original_refusal(topic: &str, problem: &Problem) -> Response {
    let status = problem.kind.status();
    let data = OriginalData { topic, partition: -1, offset: -1 };
    let answer = Original { errno: -i32::from(status.as_u16()), errmsg: &problem.detail, data };
    json(status, problem.headers(), serde_json::to_vec(&answer).expect("texts and numbers are always JSON"))
}

pub(crate) fn summary(status: StatusCode, headers: HeaderMap, body: Vec<u8>) -> Response {
    json(status, headers, body)
}

/// `results=all`: one JSON text a line, until the summary.
pub(crate) fn lines(body: AnswerBody) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}

pub(crate) fn ending(mut response: Response, connection: Connection) -> Response {
    if connection == Connection::Closed {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[cfg(test)]
mod tests {
    use common::ids::{Offset, Partition};
    use common::problem::Kind;
    use serde_json::{Value, json};

    use super::*;

    const PLACE: Produced = Produced { partition: Partition(3), offset: Offset(81), timestamp: 1_700_000_000_000 };

    fn read(response: Response) -> (u16, String, Value) {
        let content_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
        let status = response.status().as_u16();
        let AnswerBody::Whole(body) = response.into_body() else { panic!("this answer is whole") };
        (status, content_type, serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn a_plain_answer_says_where_the_message_lies() {
        let topic = Topic::new("t.1_a-b").unwrap();
        let (status, content_type, body) = read(plain(&topic, PLACE, Ack::All));
        assert_eq!((status, content_type.as_str()), (200, "application/json"));
        assert_eq!(body, json!({"topic": "t.1_a-b", "partition": 3, "offset": 81, "timestamp": 1_700_000_000_000_i64}));
        let (status, _, body) = read(plain(&topic, PLACE, Ack::None));
        assert_eq!((status, body), (202, json!({"topic": "t.1_a-b"})));
    }

    #[test]
    fn the_originals_answer_has_one_shape_for_success_and_failure() {
        let (status, content_type, body) = read(original(&Topic::new("t").unwrap(), PLACE));
        assert_eq!((status, content_type.as_str()), (200, "application/json"));
        assert_eq!(body, json!({"errno": 0, "errmsg": "ok", "data": {"Topic": "t", "Partition": 3, "Offset": 81}}));
        let refusal = original_refusal("nope", &Problem::new(Kind::UnknownTopic, "topic nope does not exist"));
        let (status, _, body) = read(refusal);
        let data = json!({"Topic": "nope", "Partition": -1, "Offset": -1});
        assert_eq!(status, 404);
        assert_eq!(body, json!({"errno": -404, "errmsg": "topic nope does not exist", "data": data}));
    }
}

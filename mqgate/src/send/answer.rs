//! What the proxy answered, in words: where a message lies, or why it does not, and what to do.

use std::fmt::Display;

use common::ids::Topic;
use jiff::Timestamp;
use reqwest::StatusCode;
use serde::Deserialize;

use crate::failure::Failure;
use crate::http::Answer;
use crate::output;

/// How an answer is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    Text,
    /// As the server gave it.
    Json,
}

#[derive(Deserialize)]
struct Written {
    partition: u32,
    offset: u64,
    timestamp: i64,
}

pub(super) fn one(topic: &Topic, answer: &Answer, id: &str, show: Show) -> Result<(), Failure> {
    if show == Show::Json {
        output::line(answer.text())?;
    }
    if !answer.status.is_success() {
        return Err(refused(answer, &format!("send it again with --id {id}, so that receivers can tell a repeat")));
    }
    if show == Show::Text {
        let written: Written = serde_json::from_slice(&answer.body).map_err(|error| foreign(answer.status, error))?;
        let time = Timestamp::from_millisecond(written.timestamp).map_or_else(|_| written.timestamp.to_string(), |time| time.to_string());
        output::line(format_args!("written to {topic}, partition {}, offset {}, at {time}", written.partition, written.offset))?;
    }
    Ok(())
}

/// `may_be_written`: what to do if it may.
pub(super) fn refused(answer: &Answer, may_be_written: &str) -> Failure {
    let refused = format!("not accepted: {}", answer.problem().sentence(answer.status));
    Failure::failed(with_advice(refused, answer, may_be_written))
}

/// What each kind of refusal asks the sender to do.
fn with_advice(refused: String, answer: &Answer, may_be_written: &str) -> String {
    match answer.status {
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            let wait = answer.retry_after.as_ref().map_or(String::new(), |seconds| format!(" in {seconds} s"));
            format!("{refused}\n  It was certainly not written; try again{wait}.")
        }
        StatusCode::GATEWAY_TIMEOUT => format!("{refused}\n  It may have been written; {may_be_written}."),
        _ => refused,
    }
}

/// An answer that makes no sense.
pub(super) fn foreign(status: StatusCode, why: impl Display) -> Failure {
    Failure::failed(format_args!("{status} was answered, with a body that is not mqgate's ({why}); is --proxy right?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status: StatusCode::from_u16(status).unwrap(), retry_after: Some("3".into()), body: body.into() }
    }

    #[test]
    fn a_503_says_that_nothing_was_written_and_when_to_try_again() {
        let text = with_advice("no".into(), &answer(503, ""), "");
        assert!(text.contains("certainly not written; try again in 3 s"), "{text}");
    }

    #[test]
    fn a_504_names_the_id_to_repeat_with() {
        let topic = Topic::new("t").unwrap();
        let Err(Failure::Failed(error)) = one(&topic, &answer(504, r#"{"code":"produce_timeout"}"#), "abc", Show::Text) else {
            panic!("a 504 is a failure")
        };
        assert!(error.to_string().contains("--id abc"), "{error}");
    }

    #[test]
    fn an_answer_of_something_else_is_not_taken_for_success() {
        assert!(one(&Topic::new("t").unwrap(), &answer(200, "ok"), "x", Show::Text).is_err());
    }
}

//! What the proxy answered, in words: where a message lies, or why it does not, and what to do.

use common::ids::Topic;
use jiff::Timestamp;
use reqwest::StatusCode;
use serde::Deserialize;

use crate::failure::Failure;
use crate::http::{Answer, Problem};
use crate::output::{self, grouped};

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

/// The summary of many messages.
#[derive(Deserialize)]
struct Summary {
    accepted: u64,
    failed: u64,
    #[serde(default)]
    errors: Vec<LineError>,
    #[serde(default)]
    errors_truncated: bool,
}

#[derive(Deserialize)]
struct LineError {
    line: u64,
    status: u16,
    code: String,
    #[serde(default)]
    detail: String,
}

pub(super) fn one(topic: &Topic, answer: &Answer, id: &str, show: Show) -> Result<(), Failure> {
    if show == Show::Json {
        output::line(answer.text())?;
    }
    if !answer.status.is_success() {
        let refused = format!("not accepted: {}", answer.problem().sentence(answer.status));
        return Err(Failure::failed(with_advice(
            refused,
            answer,
            &format!("send it again with --id {id}, so that receivers can tell a repeat"),
        )));
    }
    if show == Show::Text {
        let written: Written = serde_json::from_slice(&answer.body).map_err(|error| unreadable(answer, &error))?;
        let time = Timestamp::from_millisecond(written.timestamp).map_or_else(|_| written.timestamp.to_string(), |time| time.to_string());
        output::line(format_args!("written to {topic}, partition {}, offset {}, at {time}", written.partition, written.offset))?;
    }
    Ok(())
}

pub(super) fn many(answer: &Answer, show: Show) -> Result<(), Failure> {
    if show == Show::Json {
        output::line(answer.text())?;
    }
    let summary = match serde_json::from_slice::<Summary>(&answer.body) {
        Ok(summary) => summary,
        Err(error) if answer.status.is_success() => return Err(unreadable(answer, &error)),
        Err(_) => {
            let refused = format!("not accepted: {}", answer.problem().sentence(answer.status));
            return Err(Failure::failed(with_advice(refused, answer, "what was sent may be there in part")));
        }
    };
    if show == Show::Text {
        output::line(format_args!("{} accepted, {} failed", grouped(summary.accepted), grouped(summary.failed)))?;
    }
    if summary.failed == 0 && answer.status.is_success() {
        return Ok(());
    }
    for text in failure_lines(&summary) {
        anstream::eprintln!("{text}");
    }
    let advice = with_advice(
        "send the failed lines again, not the whole: the others are written".into(),
        answer,
        "their repeats may be second copies",
    );
    anstream::eprintln!("{advice}");
    Err(Failure::Reported)
}

fn failure_lines(summary: &Summary) -> Vec<String> {
    let mut lines: Vec<String> = summary.errors.iter().map(LineError::sentence).collect();
    let unseen = summary.failed.saturating_sub(summary.errors.len() as u64);
    if unseen > 0 || summary.errors_truncated {
        lines.push(format!("and {} more failures, which the server did not list", grouped(unseen)));
    }
    lines
}

impl LineError {
    fn sentence(&self) -> String {
        let problem = Problem { title: String::new(), detail: self.detail.clone(), code: self.code.clone() };
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        format!("line {}: {}", self.line, problem.sentence(status))
    }
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

fn unreadable(answer: &Answer, error: &serde_json::Error) -> Failure {
    Failure::failed(format_args!("{} was answered, with a body that is not mqgate's ({error}); is --proxy right?", answer.status))
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
    fn failures_beyond_the_list_are_counted() {
        let body =
            r#"{"accepted":1,"failed":3,"errors":[{"line":17,"status":413,"code":"too_large","detail":"2 MB"}],"errors_truncated":true}"#;
        let lines = failure_lines(&serde_json::from_str(body).unwrap());
        assert_eq!(lines, ["line 17: 413 Payload Too Large (too_large): 2 MB", "and 2 more failures, which the server did not list"]);
    }

    #[test]
    fn an_answer_of_something_else_is_not_taken_for_success() {
        assert!(many(&answer(200, "<html>"), Show::Text).is_err());
        assert!(one(&Topic::new("t").unwrap(), &answer(200, "ok"), "x", Show::Text).is_err());
    }
}

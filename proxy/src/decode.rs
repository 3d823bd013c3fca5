//! From a request to messages, or to a precise refusal. Nothing here waits, and nothing here knows
//! the queue.

use std::borrow::Cow;

use common::ids::Topic;
use common::problem::{Kind, Problem};
use common::record::TimestampMs;

#[cfg(test)]
mod any_input;
pub(crate) mod batch;
pub(crate) mod lines;
mod metadata;
pub(crate) mod original;
mod percent;
pub(crate) mod plain;
mod query;
#[cfg(test)]
mod tests;

const DAY_MS: TimestampMs = 24 * 60 * 60 * 1000;

fn malformed(detail: impl Into<Cow<'static, str>>) -> Problem {
    Problem::new(Kind::Malformed, brief(detail.into()))
}

/// A refusal repeats a part of what it refuses, which may be as long as a line. Its beginning says what, its end where.
fn brief(detail: Cow<'static, str>) -> Cow<'static, str> {
    const BEGINNING_BYTES: usize = 400;
    const END_BYTES: usize = 200;
    if detail.len() <= BEGINNING_BYTES + END_BYTES {
        return detail;
    }
    let (beginning, end) = (detail.floor_char_boundary(BEGINNING_BYTES), detail.ceil_char_boundary(detail.len() - END_BYTES));
    format!("{} … {}", &detail[..beginning], &detail[end..]).into()
}

fn illegal_topic(error: &common::ids::TopicError) -> Problem {
    Problem::new(Kind::IllegalTopic, error.to_string())
}

/// A topic from a segment of a path.
pub(crate) fn topic_of_path(segment: &str) -> Result<Topic, Problem> {
    let bytes =
        percent::decode(segment.as_bytes(), percent::Plus::Literal).map_err(|bad| malformed(format!("topic in the path: {bad}")))?;
    let not_utf8 = |_| Problem::new(Kind::IllegalTopic, "the topic in the path is not UTF-8; legal are A-Z a-z 0-9 . _ -");
    Topic::new(std::str::from_utf8(&bytes).map_err(not_utf8)?).map_err(|error| illegal_topic(&error))
}

/// Milliseconds, within a day of now: seconds or microseconds by mistake are out by years.
fn check_timestamp(timestamp: TimestampMs, now: TimestampMs) -> Result<TimestampMs, Problem> {
    if timestamp.abs_diff(now) <= DAY_MS.unsigned_abs() {
        return Ok(timestamp);
    }
    Err(malformed(format!("timestamp {timestamp} is not within a day of now ({now}); it counts milliseconds since 1970")))
}

/// The known name that is nearest, if any is near. Its beginning says enough of a name as long as a line may be, and the
/// distance would take a hundred times its length of memory.
fn did_you_mean(name: &str, known: &[&'static str]) -> String {
    let near = known.iter().map(|known| (strsim::damerau_levenshtein(shown(name), known), known)).min();
    match near {
        Some((distance, known)) if distance <= known.len().div_ceil(3) => format!("; did you mean {known}?"),
        _ => format!("; known are {}", known.join(", ")),
    }
}

/// Cut for a text that is shown, at a character's border.
pub(crate) fn shown(text: &str) -> &str {
    const MAX_SHOWN_BYTES: usize = 80;
    &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)]
}

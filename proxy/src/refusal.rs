//! Errors become refusals, all in one place; which status a refusal has stands in `common::problem`.

use std::io::ErrorKind;

use common::problem::{Kind, Problem};
use common::queue::{NotWritten, ProduceError};

use crate::admission::Full;
use crate::metrics::Outcome;
use crate::upload::UploadError;

/// For troubles that a human has to end, in seconds.
const RETRY_AFTER_REPAIR_SECONDS: u32 = 30;

pub(crate) fn of_produce(error: &ProduceError) -> Problem {
    let text = error.to_string();
    match error {
        ProduceError::UnknownTopic(_) => Problem::new(Kind::UnknownTopic, text),
        ProduceError::UnknownPartition { .. } => Problem::new(Kind::UnknownPartition, text),
        ProduceError::TooLarge { .. } => Problem::new(Kind::TooLarge, text),
        ProduceError::RecordRefused(_) => Problem::new(Kind::RecordRefused, text),
        ProduceError::NotWritten(why, _) => match why {
            NotWritten::Unavailable => Problem::new(Kind::Unavailable, text),
            NotWritten::LocalQueueFull => Problem::new(Kind::LocalQueueFull, text),
            NotWritten::TooManyTopics => Problem::new(Kind::TooManyTopics, text),
            NotWritten::DiskFull => Problem::new(Kind::DiskFull, text).retry_after(RETRY_AFTER_REPAIR_SECONDS),
            NotWritten::StorageFailed => Problem::new(Kind::StorageFailed, text).retry_after(RETRY_AFTER_REPAIR_SECONDS),
            NotWritten::ShuttingDown => Problem::new(Kind::ShuttingDown, text),
        },
        ProduceError::MaybeWritten(_) => {
            Problem::new(Kind::NoAcknowledgement, format!("{text}; repeat it with the same Idempotency-Key, so that receivers can tell"))
        }
    }
}

/// What became of the message, as far as its error says.
pub(crate) fn outcome<T>(answer: &Result<T, ProduceError>) -> Outcome {
    match answer {
        Ok(_) => Outcome::Written,
        Err(ProduceError::MaybeWritten(_)) => Outcome::Unknown,
        Err(_) => Outcome::Refused,
    }
}

pub(crate) fn of_upload(error: &UploadError) -> Problem {
    match error {
        UploadError::TooLarge(max_bytes) => Problem::new(
            Kind::TooLarge,
            format!("the body is over {max_bytes} bytes, which is what max_message_bytes leaves beside key and headers"),
        ),
        UploadError::Truncated(error) => {
            Problem::new(Kind::Malformed, format!("the body is not whole, and nothing of it was produced: {}", broken(error)))
        }
        UploadError::TooSlow => {
            Problem::new(Kind::BodyTimeout, "the body did not come within body_timeout, and nothing of it was produced")
        }
        UploadError::Full(full) => of_full(*full),
    }
}

/// In a batch only the line that broke off is lost.
pub(crate) fn of_line_upload(error: &UploadError) -> Problem {
    let why = match error {
        UploadError::Truncated(error) => broken(error),
        UploadError::TooSlow => "it did not come within body_timeout",
        UploadError::TooLarge(_) | UploadError::Full(_) => "it is too large",
    };
    let detail = format!("the upload broke off in this line, and it and what should follow were not produced: {why}");
    Problem::new(of_upload(error).kind, detail)
}

/// What hyper's words come down to; they are told apart by the kind of I/O error that it makes of them.
fn broken(error: &hyper::Error) -> &'static str {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    match cause.map(|cause| (cause.kind(), cause.to_string())) {
        Some((ErrorKind::UnexpectedEof, _)) => "the client closed before the end that it had announced",
        Some((ErrorKind::InvalidInput | ErrorKind::InvalidData, text)) if text.to_ascii_lowercase().contains("chunk size") => {
            "a chunk does not begin with its size in hexadecimal digits and CRLF"
        }
        Some((ErrorKind::InvalidInput | ErrorKind::InvalidData, text)) if text.contains("chunk body") => {
            "no CRLF is where a chunk should end by its size"
        }
        Some((ErrorKind::InvalidInput | ErrorKind::InvalidData, _)) => {
            "its chunks, or the trailers after them, are not framed as RFC 9112, 7.1 says"
        }
        _ => "the connection failed",
    }
}

pub(crate) fn of_full(full: Full) -> Problem {
    let detail = match full {
        Full::Requests => "as many requests are under way as max_in_flight_requests allows",
        Full::Bytes => "as many bytes are under way as max_in_flight_bytes allows",
    };
    Problem::new(Kind::TooManyInFlight, detail)
}

pub(crate) fn message_too_large(bytes: usize, max_bytes: usize) -> Problem {
    Problem::new(Kind::TooLarge, format!("key, value and headers together have {bytes} bytes, more than max_message_bytes, {max_bytes}"))
}

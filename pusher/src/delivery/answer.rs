//! A receiver's answer, and what it means: the table of `contract.md` §2.

use std::time::{Duration, SystemTime};

use common::config::SuccessStatus;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::reason::Reason;
use super::retry_after::retry_after;
use super::snippet;

/// A longer answer counts by its status, and its connection is closed; in bytes.
const MAX_READ_BYTES: usize = 64 << 10;

/// What the group's configuration says about answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) success: SuccessStatus,
    pub(super) retry_after_max: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Delivered,
    Failed {
        reason: Reason,
        /// From now.
        no_earlier_than: Option<Duration>,
    },
}

impl Policy {
    /// `now` is asked only where a date may have to be compared with it.
    pub(super) fn meaning(self, status: StatusCode, headers: &HeaderMap, now: impl FnOnce() -> SystemTime) -> Meaning {
        let success = match self.success {
            SuccessStatus::Any2xx => status.is_success(),
            SuccessStatus::Exactly(wanted) => status.as_u16() == wanted,
        };
        match status {
            _ if success => Meaning::Delivered,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                let no_earlier_than = retry_after(headers, now(), self.retry_after_max);
                Meaning::Failed { reason: Reason::of_status(status), no_earlier_than }
            }
            _ => Meaning::Failed { reason: Reason::of_status(status), no_earlier_than: None },
        }
    }
}

/// The beginning of an answer's body, which is read to its end or to [`MAX_READ_BYTES`]. It keeps
/// what came even when the rest does not.
#[derive(Debug, Default)]
pub(super) struct Beginning(Vec<u8>);

impl Beginning {
    pub(super) async fn read(&mut self, mut body: Incoming) -> Result<(), hyper::Error> {
        let mut read_bytes = 0;
        while read_bytes <= MAX_READ_BYTES && !body.is_end_stream() {
            let Some(frame) = body.frame().await else { break };
            if let Ok(data) = frame?.into_data() {
                read_bytes += data.len();
                let kept = data.len().min(snippet::MAX_KEPT_BYTES.saturating_sub(self.0.len()));
                self.0.extend_from_slice(&data[..kept]);
            }
        }
        Ok(())
    }

    /// For people: the status and the beginning of what came with it, cleaned and cut.
    pub(super) fn describe(&self, status: StatusCode) -> String {
        let cleaned = snippet::clean(&self.0);
        let separator = if cleaned.is_empty() { "" } else { ": " };
        match status.canonical_reason() {
            Some(name) => format!("{} {name}{separator}{cleaned}", status.as_u16()),
            None => format!("{}{separator}{cleaned}", status.as_u16()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::HeaderValue;
    use http::header::RETRY_AFTER;
    use proptest::prelude::*;

    use super::*;

    fn meaning(success: SuccessStatus, status: u16) -> Meaning {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("2"))]);
        let policy = Policy { success, retry_after_max: Duration::from_secs(3600) };
        policy.meaning(StatusCode::from_u16(status).unwrap(), &headers, || SystemTime::UNIX_EPOCH)
    }

    fn reason(success: SuccessStatus, status: u16) -> Option<&'static str> {
        match meaning(success, status) {
            Meaning::Delivered => None,
            Meaning::Failed { reason, .. } => Some(reason.label()),
        }
    }

    #[test]
    fn every_2xx_is_done_and_nothing_else() {
        for status in 100..=999 {
            assert_eq!(meaning(SuccessStatus::Any2xx, status) == Meaning::Delivered, (200..300).contains(&status), "{status}");
        }
    }

    #[test]
    fn an_exact_success_status_refuses_the_others() {
        assert_eq!(reason(SuccessStatus::Exactly(200), 200), None);
        assert_eq!(reason(SuccessStatus::Exactly(200), 204), Some("status_2xx"));
        assert_eq!(reason(SuccessStatus::Exactly(200), 302), Some("status_3xx"));
    }

    #[test]
    fn failures_are_labelled_by_their_kind() {
        let expected = [
            (101, "status_1xx"),
            (304, "status_3xx"),
            (404, "status_4xx"),
            (429, "status_429"),
            (500, "status_5xx"),
            (600, "status_other"),
        ];
        for (status, label) in expected {
            assert_eq!(reason(SuccessStatus::Any2xx, status), Some(label));
        }
    }

    #[test]
    fn retry_after_counts_with_429_and_503_alone() {
        for status in [301, 400, 404, 429, 500, 502, 503, 504] {
            let Meaning::Failed { no_earlier_than, .. } = meaning(SuccessStatus::Any2xx, status) else { panic!("{status}") };
            assert_eq!(no_earlier_than.is_some(), matches!(status, 429 | 503), "{status}");
        }
    }

    proptest! {
        #![proptest_config(fuzz::config())]

        /// Whatever a receiver says: it is done or it is not, it is left alone no longer than the cap, and a log line stays one.
        #[test]
        fn any_answer_has_one_meaning_and_one_line(
            status in 100_u16..1000,
            exactly in prop::option::of(200_u16..300),
            asked in fuzz::near(vec![b"120".to_vec(), b"Fri, 31 Dec 1999 23:59:59 GMT".to_vec()], &["0", "-", ",", " ", "GMT", "1e9", "9999999999"]),
            body in fuzz::near(vec![b"{\"error\":\"no\"}".to_vec(), b"<html>\r\n<b>no</b>".to_vec()], &["\r\n", "\0", "\u{2028}", "\u{202e}", "\x1b[2J", "é"]),
        ) {
            let success = exactly.map_or(SuccessStatus::Any2xx, SuccessStatus::Exactly);
            let policy = Policy { success, retry_after_max: Duration::from_secs(3600) };
            let headers = HeaderMap::from_iter(HeaderValue::from_bytes(&asked).map(|value| (RETRY_AFTER, value)));
            let code = StatusCode::from_u16(status).unwrap();
            match policy.meaning(code, &headers, SystemTime::now) {
                Meaning::Delivered => prop_assert!((200..300).contains(&status) && exactly.is_none_or(|wanted| wanted == status)),
                Meaning::Failed { no_earlier_than, .. } => {
                    prop_assert!(!(200..300).contains(&status) || exactly.is_some_and(|wanted| wanted != status));
                    prop_assert!(no_earlier_than.is_none_or(|wait| wait <= policy.retry_after_max && matches!(status, 429 | 503)));
                }
            }
            let line = Beginning(body[..body.len().min(snippet::MAX_KEPT_BYTES)].to_vec()).describe(code);
            prop_assert!(line.starts_with(&status.to_string()) && line.chars().count() < 300);
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}

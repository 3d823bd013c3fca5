//! `Retry-After`: whole seconds, or an HTTP date (RFC 9110 §10.2.3).

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// How long the receiver asks to be left alone, at most `max`. Rubbish is as good as no header; of
/// several headers the longest wait counts.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime, max: Duration) -> Option<Duration> {
    let asked = headers.get_all(RETRY_AFTER).iter().filter_map(|value| parse(value.to_str().ok()?.trim(), now)).max();
    asked.map(|wait| wait.min(max))
}

fn parse(text: &str, now: SystemTime) -> Option<Duration> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const MAX: Duration = Duration::from_secs(3600);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(1_784_111_777_500)
    }

    fn asked(values: &[&str]) -> Option<Duration> {
        let headers = values.iter().map(|value| (RETRY_AFTER, HeaderValue::from_str(value).unwrap())).collect();
        retry_after(&headers, now(), MAX)
    }

    fn date(offset_secs: i64) -> String {
        httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(1_784_111_777_u64.saturating_add_signed(offset_secs)))
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        assert_eq!(asked(&["3"]), Some(Duration::from_secs(3)));
        assert_eq!(asked(&["0"]), Some(Duration::ZERO));
        assert_eq!(asked(&[" 2 "]), Some(Duration::from_secs(2)));
        assert_eq!(asked(&[&date(4)]), Some(Duration::from_millis(3500)), "the rest of the running second counts");
        assert_eq!(asked(&[&date(-60)]), Some(Duration::ZERO));
    }

    #[test]
    fn rubbish_is_ignored() {
        for rubbish in ["-5", "abc", "1.5", "", "+3", "3s", "0x3", "3, 5", "Thu, 99 Foo 2026 00:00:00 GMT"] {
            assert_eq!(asked(&[rubbish]), None, "{rubbish:?}");
        }
        assert_eq!(asked(&[]), None);
    }

    #[test]
    fn no_receiver_stalls_a_record_for_longer_than_the_cap() {
        assert_eq!(asked(&["86400"]), Some(MAX));
        assert_eq!(asked(&["99999999999999999999999999"]), Some(MAX));
        assert_eq!(asked(&[&date(86_400)]), Some(MAX));
    }

    #[test]
    fn of_two_headers_the_longer_wait_counts() {
        assert_eq!(asked(&["2", "7"]), Some(Duration::from_secs(7)));
        assert_eq!(asked(&["7", "abc"]), Some(Duration::from_secs(7)));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_capped_and_never_panics(text in "[ -~]{0,30}") {
            prop_assert!(asked(&[&text]).is_none_or(|wait| wait <= MAX));
        }

        #[test]
        fn every_number_of_seconds_is_understood(secs in 0_u64..3600) {
            prop_assert_eq!(asked(&[&secs.to_string()]), Some(Duration::from_secs(secs)));
        }
    }
}

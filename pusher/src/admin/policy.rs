//! A group's configuration as the admin API shows it.

use std::time::Duration;

use common::config::{GroupConfig, InitialFrom};
use http::Uri;
use humantime::format_duration;

use super::view::{BackoffView, Policy};

/// In the words of the file, so that what is shown can be put back there.
pub(super) fn policy(config: &GroupConfig) -> Policy {
    Policy {
        url: url(&config.url),
        topics: config.topics.clone(),
        worker_num: config.worker_num,
        order: config.order.name().to_owned(),
        retry_times: config.retry_times,
        retry_backoff: BackoffView { initial: duration(config.retry_backoff.initial), max: duration(config.retry_backoff.max) },
        bypass_failed: config.bypass_failed,
        failed_sleep: duration(config.failed_sleep),
        timeout: duration(config.timeout),
        connect_timeout: duration(config.connect_timeout),
        processing_timeout: config.processing_timeout.map(duration),
        retry_after_max: duration(config.retry_after_max),
        initial_from: initial_from(config.initial_from),
        delay: config.delay.map(duration),
        dead_letter_topic: config.dead_letter_topic.clone(),
        serializer: config.serializer.name().to_owned(),
        content_type: config.content_type.as_ref().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
        success_status: config.success_status.to_string(),
        commit_interval: duration(config.commit_interval),
        max_in_flight_records: config.max_in_flight_records,
        max_in_flight_bytes: config.max_in_flight_bytes,
    }
}

/// Without user and password, which are the receiver's secret.
pub(super) fn url(url: &Uri) -> String {
    let text = url.to_string();
    match url.authority().and_then(|authority| authority.as_str().rsplit_once('@')) {
        Some((user, _)) => text.replacen(&format!("{user}@"), "", 1),
        None => text,
    }
}

fn duration(duration: Duration) -> String {
    format_duration(duration).to_string().replace(' ', "")
}

fn initial_from(initial: InitialFrom) -> String {
    match initial {
        InitialFrom::Oldest => "oldest".to_owned(),
        InitialFrom::Newest => "newest".to_owned(),
        InitialFrom::Time(ms) => jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_callback_url_is_not_shown() {
        assert_eq!(url(&Uri::from_static("http://user:p%40ss@rx:8080/hook?a=b@c")), "http://rx:8080/hook?a=b@c");
        assert_eq!(url(&Uri::from_static("https://rx/hook")), "https://rx/hook");
    }

    #[test]
    fn durations_read_as_the_file_writes_them() {
        assert_eq!(duration(Duration::from_millis(1500)), "1s500ms");
        assert_eq!(duration(Duration::from_secs(90)), "1m30s");
    }

    #[test]
    fn a_start_by_time_is_shown_as_a_time() {
        assert_eq!(initial_from(InitialFrom::Time(1_700_000_000_000)), "2023-11-14T22:13:20Z");
    }
}

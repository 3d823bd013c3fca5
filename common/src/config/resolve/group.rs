//! One group's policy: defaults that depend on other fields, and fields that contradict each other.

use std::collections::HashMap;
use std::time::Duration;

use md5::{Digest, Md5};

use super::narrow;
use super::servers::Servers;
use crate::config::fault::{Report, Spot};
use crate::config::file::{Arbiter, Backoff, Format, Group};
use crate::config::section::Given;
use crate::config::{GroupConfig, InitialFrom, Order, RetryBackoff};
use crate::ids::{GroupName, Topic};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The group's name and the place that determines it. `None`: what determines it was refused.
pub(super) fn name(raw: &Group) -> Option<(GroupName, Spot)> {
    match raw.group.value.as_ref()? {
        Some(name) => Some((name.clone(), raw.group.spot.clone())),
        None => {
            let hash = Md5::digest(raw.url.value.as_ref()?.written.as_bytes());
            let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            Some((GroupName::new(&hex).expect("hex digits are a legal name"), raw.url.spot.clone()))
        }
    }
}

/// A group without a legal name is looked through all the same, for what else is wrong with it.
pub(super) fn config(raw: Group, name: Option<GroupName>, servers: &Servers, report: &mut Report<'_>) -> Option<GroupConfig> {
    let (brokers, ensemble) = servers.of_group(&raw, report);
    check_failure_policy(&raw, report);
    if raw.format.value == Some(Format::Later) {
        report.fault_at(&raw.format.spot, "this `format` comes with a later version; \"raw\" is what there is");
    }
    let topics = raw.topics.value.and_then(|topics| distinct(topics, report));
    let order = order(&raw.order, &raw.arbiter_name, report);
    let initial_from = initial_from(&raw.initial_from_oldest, &raw.initial_from, report);
    let connect_timeout = connect_timeout(&raw.timeout, &raw.connect_timeout, report);
    let retry_backoff = raw.retry_backoff.value.as_ref().and_then(|raw| backoff(raw, report));
    Some(GroupConfig {
        group: name?,
        named: raw.group.is_set(),
        url: raw.url.value?.uri,
        topics: topics?,
        brokers,
        ensemble,
        worker_num: narrow(raw.worker_num.value?),
        retry_times: narrow(raw.retry_times.value?),
        bypass_failed: raw.bypass_failed.value?,
        failed_sleep: raw.failed_sleep.value?,
        timeout: raw.timeout.value?,
        connect_timeout: connect_timeout?,
        processing_timeout: raw.processing_timeout.value?,
        retry_backoff: retry_backoff?,
        initial_from: initial_from?,
        order: order?,
        delay: raw.delay.value?.filter(|delay| !delay.is_zero()),
        dead_letter_topic: raw.dead_letter_topic.value?,
        serializer: raw.serializer.value?,
        content_type: raw.content_type.value?,
        success_status: raw.success_status.value?,
        retry_after_max: raw.retry_after_max.value?,
        commit_interval: raw.commit_interval.value?,
        idle_timeout: raw.idle_timeout.value?,
        connection_max_age: raw.connection_max_age.value?,
        max_in_flight_records: narrow(raw.max_in_flight_records.value?),
        max_in_flight_bytes: narrow(raw.max_in_flight_bytes.value?),
    })
}

/// What is given but has no effect, or has one that its author may not have in mind.
fn check_failure_policy(raw: &Group, report: &mut Report<'_>) {
    match raw.bypass_failed.value {
        Some(true) => {
            if raw.dead_letter_topic.value == Some(None) {
                let message = "messages that are given up are counted and logged, but kept nowhere; `dead_letter_topic` keeps them";
                report.warning_at(&raw.bypass_failed.spot, message);
            }
            if raw.failed_sleep.is_given() {
                report.warning_at(&raw.failed_sleep.spot, "has no effect while `bypass_failed` is true: no other round follows");
            }
        }
        Some(false) if matches!(raw.dead_letter_topic.value, Some(Some(_))) => {
            let message = "has no effect while `bypass_failed` is false: no message is ever given up";
            report.warning_at(&raw.dead_letter_topic.spot, message);
        }
        Some(false) | None => {}
    }
}

fn distinct(topics: Vec<Given<Topic>>, report: &mut Report<'_>) -> Option<Vec<Topic>> {
    let mut seen: HashMap<Topic, Spot> = HashMap::new();
    let mut distinct = Some(Vec::with_capacity(topics.len()));
    for topic in topics {
        if let Some(name) = &topic.value {
            if let Some(first) = seen.get(name) {
                let (first, second) = (report.mention(first), report.mention(&topic.spot));
                report.fault_at(&topic.spot, format!("the topic {name} is listed twice, in {first} and in {second}"));
            }
            seen.entry(name.clone()).or_insert(topic.spot);
        }
        distinct = distinct.zip(topic.value).map(|(mut distinct, topic)| {
            distinct.push(topic);
            distinct
        });
    }
    distinct
}

fn order(order: &Given<Order>, arbiter: &Given<Option<Arbiter>>, report: &mut Report<'_>) -> Option<Order> {
    match (order.value?, arbiter.value?) {
        (order, None) => Some(order),
        (_, Some(Arbiter(meant))) if !order.is_given() => Some(meant),
        (order, Some(Arbiter(meant))) if order == meant => Some(order),
        (_, Some(_)) => {
            let other = report.mention(&order.spot);
            report.fault_at(&arbiter.spot, format!("`arbiter_name` contradicts `order` in {other}; keep `order`"));
            None
        }
    }
}

fn initial_from(oldest: &Given<bool>, time: &Given<Option<i64>>, report: &mut Report<'_>) -> Option<InitialFrom> {
    match (oldest.value?, time.value?) {
        (true, None) => Some(InitialFrom::Oldest),
        (false, None) => Some(InitialFrom::Newest),
        (_, Some(_)) if oldest.is_given() => {
            let other = report.mention(&oldest.spot);
            report.fault_at(&time.spot, format!("`initial_from` stands instead of `initial_from_oldest`, which is in {other}; keep one"));
            None
        }
        (_, Some(time)) => Some(InitialFrom::Time(time)),
    }
}

fn connect_timeout(timeout: &Given<Duration>, connect: &Given<Option<Duration>>, report: &mut Report<'_>) -> Option<Duration> {
    match (timeout.value?, connect.value?) {
        (timeout, None) => Some(timeout.min(CONNECT_TIMEOUT)),
        (timeout, Some(connect)) if connect <= timeout => Some(connect),
        (_, Some(_)) => {
            report.fault_at(&connect.spot, "`connect_timeout` lies within `timeout`, and cannot be longer");
            None
        }
    }
}

fn backoff(raw: &Backoff, report: &mut Report<'_>) -> Option<RetryBackoff> {
    let (initial, max) = (raw.initial.value?, raw.max.value?);
    if initial > max {
        let spot = if raw.initial.is_given() { &raw.initial.spot } else { &raw.max.spot };
        report.fault_at(spot, "`initial` is longer than `max`");
        return None;
    }
    Some(RetryBackoff { initial, max })
}

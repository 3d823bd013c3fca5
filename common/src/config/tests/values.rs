//! C69 and the kinds of values: what each field takes, and how it refuses the rest.

use super::*;

/// C69's table, on a field of a group and on one of the proxy.
#[test]
fn durations_take_a_unit_or_are_refused_with_one() {
    let taken = [("\"10s\"", 10_000), ("\"1m30s\"", 90_000), ("\"500ms\"", 500)];
    for (text, ms) in taken {
        assert_eq!(group(&format!("\"timeout\": {text}")).timeout, Duration::from_millis(ms), "{text}");
    }
    let refused = [
        ("10", "write \"10s\" or \"10ms\""),
        ("\"10\"", "write \"10s\" or \"10ms\""),
        ("\"0\"", "no unit"),
        ("\"0s\"", "zero has no meaning here"),
        ("\"-5s\"", "cannot be negative"),
        ("\"10 S\"", "did you mean \"10s\"?"),
        ("\"1e3s\"", "\"e\" is no unit"),
        ("\"99999999999s\"", "more than the most, \"1d\""),
        ("\"999999999999999999999999s\"", "more than the most, \"1d\""),
        ("1.5", "write \"1.5s\" or \"1.5ms\""),
        ("-1", "no unit"),
        ("null", "expected a duration"),
        ("true", "expected a duration"),
        ("[]", "expected a duration"),
    ];
    for (text, part) in refused {
        let (path, message) = refusal(&group_file(&format!("\"timeout\": {text}")));
        assert!(path == "consumer_groups[0].timeout" && message.contains(part), "{text}: {message}");
        let (path, message) = refusal(&format!(r#"{{ "proxy": {{ "produce_timeout": {text} }} }}"#));
        assert!(path == "proxy.produce_timeout" && message.contains(&part.replace("\"1d\"", "\"1h\"")), "{text}: {message}");
    }
}

/// C69: every duration field once, so that none is read and forgotten.
#[test]
fn every_duration_of_the_file_takes_effect() {
    let text = r#"{
        "queue": { "embedded": { "retention": "1h1s" } },
        "proxy": { "produce_timeout": "1s1ms", "head_timeout": "1s2ms", "body_timeout": "1s3ms", "idle_timeout": "1s4ms", "drain_timeout": "1s5ms" },
        "pusher": { "session_timeout": "1s6ms", "drain_timeout": "1s7ms" },
        "consumer_groups": [{
            "url": "http://rx/", "topics": ["t"],
            "failed_sleep": "2s1ms", "timeout": "2s2ms", "connect_timeout": "2s", "processing_timeout": "2s3ms",
            "retry_backoff": { "initial": "2s4ms", "max": "2s5ms" }, "delay": "2s6ms", "retry_after_max": "2s7ms",
            "commit_interval": "2s8ms", "idle_timeout": "2s9ms", "connection_max_age": "2s10ms",
        }],
    }"#;
    let Config { queue: QueueConfig::Embedded(queue), proxy, pusher, groups, .. } = read(text).unwrap().config else { panic!() };
    let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap();
    assert_eq!(ms(queue.retention), 3_601_000);
    let proxy = [proxy.produce_timeout, proxy.head_timeout, proxy.body_timeout, proxy.idle_timeout, proxy.drain_timeout];
    assert_eq!(proxy.map(ms), [1001, 1002, 1003, 1004, 1005]);
    assert_eq!([pusher.session_timeout, pusher.drain_timeout].map(ms), [1006, 1007]);
    let group = &groups[0];
    let timeouts = [group.failed_sleep, group.timeout, group.connect_timeout, group.processing_timeout.unwrap()];
    assert_eq!(timeouts.map(ms), [2001, 2002, 2000, 2003]);
    let pauses = [group.retry_backoff.initial, group.retry_backoff.max, group.delay.unwrap(), group.retry_after_max];
    assert_eq!(pauses.map(ms), [2004, 2005, 2006, 2007]);
    assert_eq!([group.commit_interval, group.idle_timeout, group.connection_max_age].map(ms), [2008, 2009, 2010]);
}

#[test]
fn zero_is_taken_where_it_means_something() {
    assert_eq!(group(r#""delay": "0s""#).delay, None);
    assert_eq!(group(r#""retry_after_max": "0s""#).retry_after_max, Duration::ZERO);
    assert_eq!(read(r#"{ "pusher": { "drain_timeout": "0s" } }"#).unwrap().config.pusher.drain_timeout, Duration::ZERO);
    assert!(refusal(&group_file(r#""failed_sleep": "99ms""#)).1.contains("less than the least, \"100ms\""));
}

#[test]
fn sizes_are_numbers_of_bytes_or_texts_with_a_unit() {
    assert_eq!(group(r#""max_in_flight_bytes": "1MiB""#).max_in_flight_bytes, 1 << 20);
    assert_eq!(group(r#""max_in_flight_bytes": 5000"#).max_in_flight_bytes, 5000);
    for (text, part) in [
        ("\"64\"", "without quotes"),
        ("\"64mb\"", "\"64MB\""),
        ("1.5", "whole"),
        ("-1", "not negative"),
        ("0", "out of bounds: 1B to 64GiB"),
        ("\"99TiB\"", "out of bounds"),
        ("true", "expected a size"),
    ] {
        let (_, message) = refusal(&group_file(&format!("\"max_in_flight_bytes\": {text}")));
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn numbers_are_whole_and_within_bounds() {
    assert_eq!(group(r#""worker_num": 100"#).worker_num, 100);
    for (text, part) in [
        ("0", "0 is out of bounds: 1 to 10000"),
        ("-1", "out of bounds"),
        ("99999999999999999999999", "out of bounds"),
        ("1.0", "write digits only"),
        ("1e2", "write digits only"),
        ("\"16\"", "without quotes"),
        ("\"many\"", "expected a whole number"),
    ] {
        let (_, message) = refusal(&group_file(&format!("\"worker_num\": {text}")));
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn choices_name_the_nearest_word() {
    assert_eq!(group(r#""order": "partition""#).order, Order::Partition);
    assert!(refusal(&group_file(r#""order": "Partitions""#)).1.ends_with("did you mean `partition`?"));
    assert_eq!(group(r#""success_status": 200"#).success_status, SuccessStatus::Exactly(200));
    assert_eq!(group(r#""success_status": "2xx""#).success_status, SuccessStatus::Any2xx);
    assert!(refusal(&group_file(r#""success_status": 302"#)).1.contains("200 to 299"));
    assert!(refusal(&group_file(r#""success_status": "200""#)).1.contains("a status such as 200"));
}

#[test]
fn booleans_are_not_guessed() {
    assert!(refusal(&group_file(r#""bypass_failed": "true""#)).1.contains("expected `true` or `false`, found the text \"true\""));
    assert!(refusal(&group_file(r#""bypass_failed": 1"#)).1.contains("found the number 1"));
}

#[test]
fn unknown_fields_name_the_nearest_or_where_they_belong() {
    assert!(refusal(&group_file(r#""retryTimes": 1"#)).1.contains("did you mean `retry_times`?"));
    assert!(refusal(r#"{ "consumer_group": [] }"#).1.contains("did you mean `consumer_groups`?"));
    assert!(refusal(r#"{ "listen": "127.0.0.1:9090" }"#).1.contains("it belongs in `proxy`"));
    assert!(refusal(r#"{ "queue": { "partitions": 3 } }"#).1.contains("it belongs in `queue.embedded`"));
    assert!(refusal(r#"{ "broker": [] }"#).1.contains("did you mean `brokers`?"));
    assert!(refusal(r#"{ "brokers": [] }"#).1.contains("belongs in `queue.kafka`"));
    assert!(refusal(r#"{ "proxy": { "colour": 3 } }"#).1.contains("fields are listen, admin"));
}

#[test]
fn every_fault_is_reported_at_once() {
    let text = r#"{
  "queue": { "embedded": { "partitions": 0, "retention": 7 } },
  "proxy": { "listen": "0.0.0.0:9090", "max_message_bytes": "1GB", "lisen": 1 },
  "pusher": { "admin": "0.0.0.0:9091" },
  "consumer_groups": [
    { "url": "ftp://x", "topics": [], "timeout": "1", "connect_timeout": "2" },
    { "topics": ["a", "a", "b/c"], "dead_letter_topic": "a", "bypass_failed": true }
  ],
  "rate": 3
}"#;
    let places: Vec<(usize, String)> = refused(text).into_iter().map(|(line, _, path, _)| (line, path)).collect();
    let expected = [
        (2, "queue.embedded.partitions"),
        (2, "queue.embedded.retention"),
        (3, "proxy.listen"),
        (3, "proxy.max_message_bytes"),
        (3, "proxy.lisen"),
        (4, "pusher.admin"),
        (6, "consumer_groups[0].url"),
        (6, "consumer_groups[0].topics"),
        (6, "consumer_groups[0].timeout"),
        (6, "consumer_groups[0].connect_timeout"),
        (7, "consumer_groups[1].url"),
        (7, "consumer_groups[1].topics[1]"),
        (7, "consumer_groups[1].topics[2]"),
        (7, "consumer_groups[1].dead_letter_topic"),
        (9, "rate"),
    ];
    assert_eq!(places, expected.map(|(line, path)| (line, path.to_owned())));
}

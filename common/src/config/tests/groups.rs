//! Groups: defaults, names, and fields that depend on each other.

use super::*;

/// The contract's table of defaults.
#[test]
fn a_group_has_the_contract_s_defaults() {
    let text = r#"{ "consumer_groups": [{ "url": "http://localhost", "topics": ["test"] }] }"#;
    let group = read(text).unwrap().config.groups.remove(0);
    let (second, topic) = (Duration::from_secs(1), Topic::new("test").unwrap());
    let expected = GroupConfig {
        // echo -n http://localhost | md5sum
        group: GroupName::new("86a9106ae65537651a8e456835b316ab").unwrap(),
        named: false,
        url: "http://localhost".parse().unwrap(),
        topics: vec![topic],
        brokers: None,
        ensemble: None,
        worker_num: 16,
        retry_times: 0,
        bypass_failed: false,
        failed_sleep: second,
        timeout: second,
        connect_timeout: second,
        processing_timeout: None,
        retry_backoff: RetryBackoff { initial: Duration::from_millis(100), max: second * 10 },
        initial_from: InitialFrom::Newest,
        order: Order::Key,
        delay: None,
        dead_letter_topic: None,
        serializer: Serializer::Raw,
        content_type: None,
        success_status: SuccessStatus::Any2xx,
        retry_after_max: second * 3600,
        commit_interval: second,
        idle_timeout: second * 4,
        connection_max_age: second * 300,
        max_in_flight_records: 10_000,
        max_in_flight_bytes: 16 << 20,
    };
    assert_eq!(group, expected);
}

#[test]
fn two_groups_of_one_name_are_refused_with_both_lines() {
    let text =
        "{ \"consumer_groups\": [\n{ \"url\": \"http://rx/\", \"topics\": [\"a\"] },\n{ \"url\": \"http://rx/\", \"topics\": [\"b\"] } ] }";
    let (path, message) = refusal(text);
    assert_eq!(path, "consumer_groups[1].url");
    assert!(message.contains("in line 2 and in line 3"), "{message}");
    let text = text.replacen("\"topics\"", "\"group\": \"first\", \"topics\"", 1);
    assert_eq!(read(&text).unwrap().config.groups.len(), 2);
    let text = text.replacen("\"topics\": [\"b\"]", "\"group\": \"first\", \"topics\": [\"b\"]", 1);
    assert_eq!(refusal(&text).0, "consumer_groups[1].group");
}

#[test]
fn names_are_legal() {
    for bad in ["", ".", "..", "a/b", "a\\u0000b"] {
        let (path, _) = refusal(&group_file(&format!("\"group\": \"{bad}\"")));
        assert_eq!(path, "consumer_groups[0].group", "{bad}");
    }
    let (path, message) = refusal(r#"{ "consumer_groups": [{ "url": "http://rx/", "topics": ["a b"] }] }"#);
    assert!(path == "consumer_groups[0].topics[0]" && message.contains("' '"), "{message}");
}

#[test]
fn topics_are_listed_once() {
    let text = "{ \"consumer_groups\": [{ \"url\": \"http://rx/\", \"topics\": [\n\"a\",\n\"b\",\n\"a\"] }] }";
    let (path, message) = refusal(text);
    assert!(path == "consumer_groups[0].topics[2]" && message.contains("in line 2 and in line 4"), "{message}");
}

#[test]
fn what_must_be_given_is_missed_by_name() {
    let all = refused("{ \"consumer_groups\": [\n  { } ] }");
    let expected = [(2, 3, "consumer_groups[0].url"), (2, 3, "consumer_groups[0].topics")];
    let places: Vec<_> = all.iter().map(|(line, column, path, _)| (*line, *column, path.as_str())).collect();
    assert_eq!(places, expected);
    assert!(all[0].3.contains("`url` is missing"));
}

#[test]
fn the_beginning_is_said_once() {
    assert_eq!(group(r#""initial_from_oldest": true"#).initial_from, InitialFrom::Oldest);
    let at = group(r#""initial_from": "2026-11-28T00:00:00Z""#).initial_from;
    assert_eq!(at, InitialFrom::Time(1_795_824_000_000));
    assert_eq!(group(r#""initial_from": "2026-11-28T01:00:00.5+01:00""#).initial_from, InitialFrom::Time(1_795_824_000_500));
    for oldest in ["true", "false"] {
        let (path, message) =
            refusal(&group_file(&format!("\"initial_from_oldest\": {oldest}, \"initial_from\": \"2026-11-28T00:00:00Z\"")));
        assert!(path == "consumer_groups[0].initial_from" && message.contains("keep one"), "{message}");
    }
    for bad in ["yesterday", "2026-11-28", "1795824000", "2026-13-28T00:00:00Z", "2026-11-28T00:00:00"] {
        assert!(refusal(&group_file(&format!("\"initial_from\": \"{bad}\""))).1.contains("RFC 3339"), "{bad}");
    }
}

#[test]
fn the_original_s_arbiter_is_honoured() {
    assert_eq!(group(r#""arbiter_name": "sequential""#).order, Order::Partition);
    assert_eq!(group(r#""arbiter_name": "sliding_window""#).order, Order::None);
    assert_eq!(group(r#""arbiter_name": "unbound", "order": "none""#).order, Order::None);
    let (path, message) = refusal(&group_file(r#""arbiter_name": "sequential", "order": "key""#));
    assert!(path == "consumer_groups[0].arbiter_name" && message.contains("contradicts `order`"), "{message}");
    for (name, order) in [("seq", Order::Partition), ("SlidingWindow", Order::None), ("sliding", Order::None), ("Unbound", Order::None)] {
        assert_eq!(group(&format!("\"arbiter_name\": \"{name}\"")).order, order, "{name}");
    }
    assert!(refusal(&group_file(r#""arbiter_name": "sequentail""#)).1.contains("did you mean `sequential`?"));
}

/// As the original's own example writes it.
#[test]
fn an_empty_content_type_is_none() {
    assert_eq!(group(r#""content_type": """#).content_type, None);
    assert_eq!(group(r#""content_type": null"#).content_type, None);
    assert_eq!(group(r#""content_type": "json""#).content_type, Some(http::HeaderValue::from_static("json")));
    assert!(refusal(&group_file(r#""content_type": " ""#)).1.contains("media type"));
}

#[test]
fn connecting_lies_within_the_attempt() {
    let ms = Duration::from_millis;
    assert_eq!(group(r#""timeout": "300ms""#).connect_timeout, ms(300));
    assert_eq!(group(r#""timeout": "60s""#).connect_timeout, ms(1000));
    assert_eq!(group(r#""timeout": "60s", "connect_timeout": "5s""#).connect_timeout, ms(5000));
    let (path, _) = refusal(&group_file(r#""timeout": "300ms", "connect_timeout": "1s""#));
    assert_eq!(path, "consumer_groups[0].connect_timeout");
}

#[test]
fn backoff_does_not_shrink() {
    let group = group(r#""retry_backoff": { "initial": "1s" }"#);
    assert_eq!(group.retry_backoff, RetryBackoff { initial: Duration::from_secs(1), max: Duration::from_secs(10) });
    assert_eq!(refusal(&group_file(r#""retry_backoff": { "initial": "11s" }"#)).0, "consumer_groups[0].retry_backoff.initial");
    assert_eq!(refusal(&group_file(r#""retry_backoff": { "max": "99ms" }"#)).0, "consumer_groups[0].retry_backoff.max");
}

#[test]
fn dead_letters_never_come_back_to_their_group() {
    let (path, message) = refusal(&group_file(r#""bypass_failed": true, "dead_letter_topic": "t""#));
    assert!(path == "consumer_groups[0].dead_letter_topic" && message.contains("for ever"), "{message}");
    assert!(group(r#""bypass_failed": true, "dead_letter_topic": "t-dead""#).dead_letter_topic.is_some());
}

#[test]
fn dead_letters_that_come_back_through_another_group_are_warned_of() {
    let groups = |last: &str| {
        format!(
            r#"{{ "consumer_groups": [
            {{ "url": "http://a/", "topics": ["a"], "bypass_failed": true, "dead_letter_topic": "b" }},
            {{ "url": "http://b/", "topics": ["b", "x"], "bypass_failed": true, "dead_letter_topic": "c" }},
            {{ "url": "http://c/", "topics": ["c"], "bypass_failed": {last} }} ] }}"#
        )
    };
    let rings = |last: &str| warnings(&groups(last)).iter().filter(|text| text.contains("comes back")).count();
    assert_eq!(rings(r#"true, "dead_letter_topic": "a""#), 3);
    assert_eq!(rings(r#"true, "dead_letter_topic": "d""#), 0);
    assert_eq!(rings(r#"false, "dead_letter_topic": "a""#), 0, "a group that gives nothing up ends it");
}

#[test]
fn policies_without_effect_are_warned_of() {
    assert!(warnings(&group_file(r#""bypass_failed": true"#)).concat().contains("`dead_letter_topic` keeps them"));
    assert!(warnings(&group_file(r#""dead_letter_topic": "d""#)).concat().contains("no message is ever given up"));
    let both = group_file(r#""bypass_failed": true, "dead_letter_topic": "d", "failed_sleep": "5s""#);
    assert!(warnings(&both).concat().contains("no other round follows"));
}

#[test]
fn what_this_version_does_not_have_is_refused_by_name() {
    for (fields, part) in [
        (r#""secrets": []"#, "`secrets` comes with a later version"),
        (r#""headers": {}"#, "`headers` comes with a later version"),
        (r#""pass_headers": []"#, "comes with a later version"),
        (r#""egress": {}"#, "comes with a later version"),
        (r#""event_types": {}"#, "comes with a later version"),
        (r#""rate": 5"#, "comes with a later version"),
        (r#""final_status": [400]"#, "comes with a later version"),
        (r#""retry_tiers": []"#, "comes with a later version"),
        (r#""format": "cloudevents""#, "`format` comes with a later version"),
    ] {
        let (_, message) = refusal(&group_file(fields));
        assert!(message.contains(part), "{fields}: {message}");
    }
}

#[test]
fn fields_of_the_original_without_meaning_are_accepted_with_a_warning() {
    let fields = [
        "\"offset\": 3",
        "\"connection_pool_size\": 30",
        "\"arbiter_config\": {}",
        "\"transporter_name\": \"HTTP\"",
        "\"transporter_config\": {}",
        "\"log_file\": \"x\"",
        "\"log_collect_ratio\": 1",
        "\"stat_server_port\": 1",
    ];
    for field in fields {
        let said = warnings(&group_file(field));
        assert!(
            said.iter().any(|text| text.starts_with("consumer_groups[0].") && text.contains("has no effect here: ")),
            "{field}: {said:?}"
        );
    }
    for field in ["\"connection_pool_size\": 1", "\"stat_server_port\": 8080", "\"log_file\": \"x\"", "\"log_collect_ratio\": 1"] {
        let said = warnings(&format!("{{ {field} }}"));
        assert!(said.iter().any(|text| text.contains("has no effect here: ")), "{field}: {said:?}");
    }
}

#[test]
fn a_group_name_that_would_break_tables_is_refused() {
    for odd in ["a\\nb", "a\\tb", "\\u001b[2J", "a\\u0085"] {
        let (path, why) = refusal(&group_file(&format!("\"group\": \"{odd}\"")));
        assert_eq!(path, "consumer_groups[0].group", "{odd}");
        assert!(why.contains("is a control character, which cannot stand in a group's name"), "{odd}: {why}");
    }
    assert_eq!(group("\"group\": \"买家 1\"").group.as_str(), "买家 1");
}

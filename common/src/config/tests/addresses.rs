//! Addresses, what may be reached by whom, secrets, and flags.

use std::path::PathBuf;

use super::*;

fn flags(overrides: &Overrides) -> Vec<Seen> {
    seen(&defaults(Role::Standalone, overrides).unwrap_err())
}

/// The contract's block of defaults.
#[test]
fn without_a_file_the_defaults_are_the_contract_s() {
    let Loaded { config, warnings } = defaults(Role::Standalone, &Overrides::default()).unwrap();
    assert_eq!(warnings, []);
    let second = Duration::from_secs(1);
    let dir = PathBuf::from("./mqgate-data");
    let queue = EmbeddedQueueConfig {
        dir: dir.clone(),
        partitions: 4,
        auto_create_topics: true,
        retention: second * 86_400 * 7,
        retention_bytes: None,
        max_topics: 1000,
    };
    assert_eq!(config.queue, QueueConfig::Embedded(queue));
    assert_eq!(config.coordinator, CoordinatorConfig::Embedded { dir });
    let proxy = ProxyConfig {
        listen: "127.0.0.1:9090".parse().unwrap(),
        admin: "127.0.0.1:9089".parse().unwrap(),
        admin_token: None,
        allow_anonymous: false,
        produce_timeout: second * 5,
        max_message_bytes: 1_000_000,
        max_in_flight_requests: 10_000,
        max_in_flight_bytes: 64 << 20,
        head_timeout: second * 10,
        body_timeout: second * 30,
        idle_timeout: second * 75,
        drain_timeout: second * 25,
    };
    assert_eq!(config.proxy, proxy);
    assert_eq!(config.pusher.admin, "127.0.0.1:9091".parse().unwrap());
    assert_eq!((config.pusher.session_timeout, config.pusher.drain_timeout), (second * 15, second * 25));
    assert_eq!(config.pusher.max_buffered_bytes, 256 << 20);
    assert_eq!(config.pusher.instance.rsplit('-').nth(1), Some(std::process::id().to_string().as_str()));
    assert_eq!(config.groups, []);
}

#[test]
fn an_empty_file_is_the_defaults() {
    let mut config = read("{}").unwrap().config;
    let other = defaults(Role::Standalone, &Overrides::default()).unwrap().config;
    config.pusher.instance.clone_from(&other.pusher.instance);
    assert_eq!(config, other);
}

#[test]
fn no_open_door_is_left_by_accident() {
    assert!(refusal(r#"{ "proxy": { "listen": "0.0.0.0:9090" } }"#).1.contains("allow_anonymous"));
    assert!(read(r#"{ "proxy": { "listen": "0.0.0.0:9090", "allow_anonymous": true } }"#).is_ok());
    assert!(refusal(r#"{ "pusher": { "admin": "[::]:9091" } }"#).1.contains("`pusher.admin_token`"));
    assert!(read(r#"{ "pusher": { "admin": "[::]:9091", "admin_token": "env:CARGO_PKG_NAME" } }"#).is_ok());
    assert_eq!(refusal(r#"{ "proxy": { "admin": "10.0.0.1:1" } }"#).0, "proxy.admin");
    assert!(read(r#"{ "proxy": { "listen": "[::1]:0" }, "pusher": { "admin": "localhost:0" } }"#).is_ok());
}

#[test]
fn an_admin_port_that_is_not_opened_is_warned_of() {
    assert!(warnings(r#"{ "proxy": { "admin": "127.0.0.1:9999" } }"#).concat().contains("one admin port, `pusher.admin`"));
    assert!(!warnings(r#"{ "proxy": { "admin": "127.0.0.1:9089" } }"#).concat().contains("admin"));
}

#[test]
fn two_servers_do_not_share_a_port() {
    assert_eq!(refusal(r#"{ "proxy": { "listen": "127.0.0.1:9091" } }"#).0, "pusher.admin");
    assert!(read(r#"{ "proxy": { "listen": "127.0.0.1:0" }, "pusher": { "admin": "127.0.0.1:0" } }"#).is_ok());
}

#[test]
fn the_largest_message_fits_what_may_be_in_flight() {
    assert_eq!(refusal(r#"{ "proxy": { "max_in_flight_bytes": 999999 } }"#).0, "proxy.max_in_flight_bytes");
    assert_eq!(refusal(r#"{ "proxy": { "max_message_bytes": "65MiB" } }"#).0, "proxy.max_message_bytes");
}

#[test]
fn secrets_are_found_and_never_shown() {
    let loaded = read(r#"{ "pusher": { "admin_token": "env:CARGO_PKG_NAME" } }"#).unwrap();
    assert_eq!(loaded.config.pusher.admin_token.as_ref().unwrap().expose(), "common");
    assert!(!format!("{loaded:?}").contains("\"common\""));
    assert!(loaded.config.effective().contains(r#""admin_token": "***""#));
    assert!(refusal(r#"{ "pusher": { "admin_token": "env:MQGATE_NO_SUCH" } }"#).1.contains("MQGATE_NO_SUCH"));
    assert!(refusal(r#"{ "pusher": { "admin_token": "file:/nonexistent/token" } }"#).1.contains("/nonexistent/token"));
}

#[test]
fn a_secret_is_not_shown_for_being_wrong() {
    for text in [r#""two words""#, "12345", r#""geheimnisvoll-ü""#] {
        let shown = read(&format!(r#"{{ "pusher": {{ "admin_token": {text} }} }}"#)).unwrap_err().to_string();
        assert!(shown.contains("\"admin_token\": **") && !shown.contains(text), "{shown}");
    }
}

#[test]
fn a_receivers_password_is_sent_and_not_shown() {
    let loaded = read(r#"{ "consumer_groups": [{ "url": "http://user:pass@rx/a", "topics": ["t"] }] }"#).unwrap();
    assert_eq!(loaded.config.groups[0].url.authority().unwrap().as_str(), "user:pass@rx");
    let shown = loaded.config.effective() + &verdict("t.json", &loaded, Colour::Plain);
    assert_eq!((shown.matches("http://***@rx/a").count(), shown.contains(":pass@")), (2, false), "{shown}");
    assert!(read(&loaded.config.effective()).is_ok());
}

#[test]
fn cursors_lie_beside_the_messages_unless_told_otherwise() {
    let dirs = |text: &str| {
        let config = read(text).unwrap().config;
        let (QueueConfig::Embedded(queue), CoordinatorConfig::Embedded { dir }) = (config.queue, config.coordinator) else {
            panic!("{text}")
        };
        (queue.dir.display().to_string(), dir.display().to_string())
    };
    assert_eq!(dirs(r#"{ "queue": { "embedded": { "dir": "/a" } } }"#), ("/a".to_owned(), "/a".to_owned()));
    let both = r#"{ "queue": { "embedded": { "dir": "/a" } }, "coordinator": { "embedded": { "dir": "/b" } } }"#;
    assert_eq!(dirs(both), ("/a".to_owned(), "/b".to_owned()));
}

#[test]
fn no_bound_but_the_disk_is_warned_of() {
    assert!(warnings(r#"{ "queue": { "embedded": { "retention_bytes": null } } }"#).concat().contains("no bound but the disk"));
    assert_eq!(warnings(r#"{ "queue": { "embedded": { "retention_bytes": "1GiB" } } }"#), Vec::<String>::new());
}

#[test]
fn flags_overrule_the_file() {
    let overrides = Overrides {
        listen: Some("127.0.0.1:1".to_owned()),
        admin: Some("127.0.0.1:2".to_owned()),
        data_dir: Some("/data".into()),
        ..Overrides::default()
    };
    let file = r#"{ "proxy": { "listen": "0.0.0.0:80" }, "pusher": { "admin": "0.0.0.0:81" }, "queue": { "embedded": { "dir": "/x" } }, "coordinator": { "embedded": { "dir": "/y" } } }"#;
    let config = parse(JUDGED, "t.json", file.as_bytes(), &overrides).unwrap().config;
    assert_eq!((config.proxy.listen.port(), config.pusher.admin.port()), (1, 2));
    assert_eq!(config.coordinator, CoordinatorConfig::Embedded { dir: "/data".into() });
    assert!(matches!(config.queue, QueueConfig::Embedded(queue) if queue.dir == Path::new("/data")));
}

#[test]
fn a_pushed_topic_is_a_group_from_the_oldest_message() {
    let pairs = [("a", "http://rx/"), ("b", "http://rx/"), ("a", "http://other/")];
    let push = pairs.map(|(topic, url)| (topic.to_owned(), url.to_owned())).to_vec();
    let config = defaults(Role::Standalone, &Overrides { push, ..Overrides::default() }).unwrap().config;
    let topics = |at: usize| config.groups[at].topics.iter().map(|topic| topic.as_str()).collect::<Vec<_>>();
    assert_eq!((topics(0), topics(1)), (vec!["a", "b"], vec!["a"]));
    assert!(config.groups.iter().all(|group| group.initial_from == InitialFrom::Oldest));
}

#[test]
fn wrong_flags_are_all_reported_by_their_names() {
    let pairs = [("a b", "http://rx/"), ("a", "ftp://rx/"), ("a", "http://rx/"), ("a", "http://rx/")];
    let overrides = Overrides {
        listen: Some("0.0.0.0:1".to_owned()),
        admin: Some("nowhere".to_owned()),
        push: pairs.map(|(topic, url)| (topic.to_owned(), url.to_owned())).to_vec(),
        ..Overrides::default()
    };
    let paths: Vec<String> = flags(&overrides).into_iter().map(|(_, _, path, _)| path).collect();
    assert_eq!(paths, ["--admin", "--push", "--push", "--push", "--listen"]);
}

#[test]
fn flags_are_judged_even_beside_a_syntax_error() {
    let overrides = Overrides { admin: Some("nowhere".to_owned()), ..Overrides::default() };
    let all = seen(&parse(JUDGED, "t.json", b"{ oops }", &overrides).unwrap_err());
    assert_eq!(all.iter().map(|(_, _, path, _)| path.as_str()).collect::<Vec<_>>(), ["$", "--admin"]);
}

#[test]
fn a_pushed_group_does_not_take_a_name_of_the_file() {
    let overrides = Overrides { push: vec![("b".to_owned(), "http://rx/".to_owned())], ..Overrides::default() };
    let all = seen(&parse(JUDGED, "t.json", group_file("").as_bytes(), &overrides).unwrap_err());
    assert!(all[0].3.contains("in line 1 and in --push"), "{all:?}");
}

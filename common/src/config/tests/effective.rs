//! What is in effect is written so that it reads back.

use super::*;

const FULL: &str = r#"{
    "queue": { "embedded": { "dir": "/var/lib/mqgate", "partitions": 8, "auto_create_topics": false, "retention": "36h", "retention_bytes": 5000000001, "max_topics": 7 } },
    "proxy": { "listen": "127.0.0.1:0", "allow_anonymous": true, "max_message_bytes": 1234567, "idle_timeout": "1h1ms" },
    "pusher": { "instance": "one", "admin_token": "***", "max_buffered_bytes": "1GB" },
    "consumer_groups": [
        { "url": "http://localhost", "topics": ["a"], "arbiter_name": "unbound", "bypass_failed": true, "dead_letter_topic": "d", "success_status": 204 },
        { "url": "https://rx.example:8443/a?b=c", "topics": ["b", "c"], "group": "zwei", "initial_from": "2026-11-28T00:00:00.123Z", "delay": "90s",
          "processing_timeout": "1m", "content_type": "application/json; charset=utf-8", "serializer": "json", "timeout": "250ms" },
        { "url": "http://[::1]:9/", "topics": ["e"], "initial_from_oldest": true, "retry_after_max": "0s", "retry_times": 3 },
    ],
}"#;

const KAFKA: &str = r#"{
    "zookeepers": ["z2:2181", "z1"], "zk_path": "/kafka/",
    "queue": { "kafka": { "brokers": ["k2:9092,k1:9092"], "properties": { "client.id": "one", "sasl.password": "***", "linger.ms": 5, "socket.keepalive.enable": true } } },
    "coordinator": { "zookeeper": { "digest": "***:***", "acl": "creator" } },
    "proxy": { "compression": "zstd", "partitioner": "fnv1a_random", "auto_create_topics": true },
    "pusher": { "instance": "one" },
    "consumer_groups": [
        { "url": "http://a/", "topics": ["a"] },
        { "url": "http://b/", "topics": ["a"], "zookeepers": ["z9:2181"] },
        { "url": "http://c/", "topics": ["a"], "zk_path": "/other", "brokers": ["k9:9092"] },
    ],
}"#;

/// A name that was made is written down, and then it is one that was given.
fn all_named(mut config: Config) -> Config {
    config.groups.iter_mut().for_each(|group| group.named = true);
    config
}

#[test]
fn what_is_in_effect_reads_back_to_the_same() {
    for (role, text) in [(Role::Standalone, FULL), (Role::Pusher, KAFKA), (Role::Proxy, KAFKA), (Role::Standalone, KAFKA)] {
        let first = read_for(role, text);
        assert_eq!(all_named(first.clone()), all_named(read_for(role, &first.effective())), "{}", first.effective());
    }
    let registered = r#"{ "zookeepers": ["z1"], "coordinator": { "embedded": {} }, "consumer_groups": [{ "group": "g", "url": "http://a/", "topics": ["a"] }] }"#;
    for text in [registered, "{}", r#"{ "coordinator": { "embedded": {} }, "queue": { "kafka": { "brokers": ["k:1"] } } }"#] {
        let first = read_for(Role::Pusher, text);
        assert_eq!(first, read_for(Role::Pusher, &first.effective()), "{}", first.effective());
    }
    let standalone = defaults(Role::Standalone, &Overrides::default()).unwrap().config;
    assert_eq!(read(&standalone.effective()).unwrap().config, standalone);
}

#[test]
fn one_line_says_the_same_as_many() {
    let config = read(FULL).unwrap().config;
    let line = config.effective_in_one_line();
    assert!(!line.contains('\n'));
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(json(&line), json(&config.effective()));
}

/// A field that is left out of the rendering is a field that nobody can check.
#[test]
fn every_field_that_has_an_effect_is_written() {
    let first = read(FULL).unwrap().config.effective() + &read(KAFKA).unwrap().config.effective();
    let unused = ["arbiter_name", "format"];
    schema::visit("", &<File as section::Section>::fields(), &mut |path, field| {
        let skipped = unused.iter().any(|name| path.ends_with(name));
        assert!(skipped || first.contains(&format!("\"{}\":", field.name)), "{path} is missing");
    });
}

#[test]
fn the_verdict_shows_what_will_run_in_columns() {
    let loaded = read(FULL).unwrap();
    let text = verdict("t.json", &loaded, Colour::Plain);
    let expected = "\
t.json: valid

produce  http://127.0.0.1:0
admin    http://127.0.0.1:9091
queue    embedded in /var/lib/mqgate, 8 partitions a topic, messages kept 1d12h, at most 5000000001B
cursors  embedded in /var/lib/mqgate

group                             topics  url                            begins                    order  workers  attempts  timeout  then
86a9106ae65537651a8e456835b316ab  a       http://localhost/              newest                    none   16       1         1s       dead letter to d
zwei                              b,c     https://rx.example:8443/a?b=c  2026-11-28T00:00:00.123Z  key    16       1         250ms    again after 1s
25c6a9ea4a1f1e1d3a0b4d2a1b0e8a44  e       http://[::1]:9/                oldest                    key    16       4         1s       again after 1s
";
    // The third group's name is a hash that says nothing; everything else is as written.
    let hash = loaded.config.groups[2].group.as_str();
    assert_eq!(text, expected.replace("25c6a9ea4a1f1e1d3a0b4d2a1b0e8a44", hash));
}

#[test]
fn the_verdict_shows_its_warnings() {
    let text = verdict("t.json", &read("{}").unwrap(), Colour::Plain);
    assert!(text.starts_with("t.json: valid, with 1 warning\nt.json:1:1: warning: queue.embedded.retention_bytes: "), "{text}");
    assert!(text.ends_with("\nno consumer groups: nothing is pushed\n"), "{text}");
}

#[test]
fn the_verdict_on_kafka_shows_whose_brokers_and_cursors() {
    let loaded = read(KAFKA).unwrap();
    let text = verdict("t.json", &loaded, Colour::Plain);
    let [head, _, admin, queue, cursors, _, columns, a, b, c] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert_eq!(head, "t.json: valid for `mqgate pusher`");
    assert_eq!(admin, "admin    http://127.0.0.1:9091");
    assert_eq!(queue, "queue    Kafka, k1:9092,k2:9092");
    assert_eq!(cursors, "cursors  ZooKeeper, z1:2181,z2:2181/kafka");
    let last = |line: &str| {
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        cells[cells.len() - 2..].join(" < ")
    };
    assert_eq!(last(columns), "brokers < cursors");
    assert_eq!(last(a), "k1:9092,k2:9092 < ZooKeeper, z1:2181,z2:2181/kafka");
    assert_eq!(last(b), "registered in z9:2181/kafka < ZooKeeper, z9:2181/kafka");
    assert_eq!(last(c), "k9:9092 < ZooKeeper, z1:2181,z2:2181/other");
}

#[test]
fn a_proxy_s_verdict_is_about_the_proxy() {
    let loaded = parse(Role::Proxy, "t.json", KAFKA.as_bytes(), &Overrides::default()).unwrap();
    let text = verdict("t.json", &loaded, Colour::Plain);
    let expected = "\
t.json: valid for `mqgate proxy`

produce  http://127.0.0.1:9090
admin    http://127.0.0.1:9089
queue    Kafka, k1:9092,k2:9092
";
    assert_eq!(text, expected);
}

//! Which cluster and which ensemble, and what the Kafka client is told.

use super::*;

/// A pusher's file with these groups after these fields.
fn pusher(fields: &str, groups: &[&str]) -> String {
    let group = |(at, fields): (usize, &&str)| format!(r#"{{ "url": "http://rx/{at}", "topics": ["t"]{fields} }}"#);
    let groups: Vec<String> = groups.iter().enumerate().map(group).collect();
    format!(r#"{{ {fields} "consumer_groups": [{}] }}"#, groups.join(", "))
}

fn sites(text: &str, overrides: &Overrides) -> Vec<(String, String)> {
    let loaded = parse(Role::Pusher, "t.json", text.as_bytes(), overrides).unwrap_or_else(|faults| panic!("{faults}"));
    let site = |group: &GroupConfig| {
        let ensemble = group.ensemble.as_ref().map_or("embedded".to_owned(), ToString::to_string);
        (group.brokers.as_ref().map_or("embedded".to_owned(), ToString::to_string), ensemble)
    };
    loaded.config.groups.iter().map(site).collect()
}

/// The contract's row: its `brokers`; else those registered in an ensemble of its own; else `queue.kafka.brokers`; else the file's ensemble's.
#[test]
fn a_group_s_brokers_are_the_nearest() {
    let groups = [
        "",
        r#", "brokers": ["k9:9092"]"#,
        r#", "zookeepers": ["z9"]"#,
        r#", "zk_path": "/other""#,
        r#", "zookeepers": ["z9"], "zk_path": "/", "brokers": ["k9:9092"]"#,
    ];
    let head = r#""zookeepers": ["z1"], "zk_path": "/kafka","#;
    let site = |brokers: &str, ensemble: &str| (brokers.to_owned(), ensemble.to_owned());
    let mut expected = [
        site("registered in z1:2181/kafka", "z1:2181/kafka"),
        site("k9:9092", "z1:2181/kafka"),
        site("registered in z9:2181/kafka", "z9:2181/kafka"),
        site("registered in z1:2181/other", "z1:2181/other"),
        site("k9:9092", "z9:2181"),
    ];
    assert_eq!(sites(&pusher(head, &groups), &Overrides::default()), expected);
    expected[0].0 = "k1:9092".to_owned();
    let head = format!(r#"{head} "queue": {{ "kafka": {{ "brokers": ["k1:9092"] }} }},"#);
    assert_eq!(sites(&pusher(&head, &groups), &Overrides::default()), expected);
}

/// So that a file made for an older Kafka also runs where no broker registers itself.
#[test]
fn the_flag_stands_for_what_would_be_registered() {
    let overrides = Overrides { brokers: Some("k0:9092".to_owned()), ..Overrides::default() };
    let text = pusher("", &[r#", "zookeepers": ["z9"]"#, r#", "brokers": ["k9:9092"]"#, ""]);
    let brokers: Vec<String> = sites(&text, &overrides).into_iter().map(|(brokers, _)| brokers).collect();
    assert_eq!(brokers, ["k0:9092", "k9:9092", "k0:9092"]);
    let said = said(&parse(Role::Pusher, "t.json", text.as_bytes(), &overrides).unwrap());
    let expected = "consumer_groups[0].zookeepers: only says where cursors are kept: the brokers are those of --brokers";
    assert_eq!(said, [expected]);
}

#[test]
fn one_ensemble_named_twice_is_one() {
    let text = pusher("", &[r#", "zookeepers": ["b:1", "a:1"]"#, r#", "zookeepers": ["a:1, b:1,"], "zk_path": "/""#]);
    let config = read_for(Role::Pusher, &text);
    assert_eq!(config.groups[0].ensemble, config.groups[1].ensemble);
    assert_eq!(config.groups[0].brokers, config.groups[1].brokers);
    let text = pusher("", &[r#", "brokers": ["b:1", "a:1"]"#, r#", "brokers": ["a:1,b:1"]"#]);
    let config = read_for(Role::Pusher, &text);
    assert_eq!(config.groups[0].brokers, config.groups[1].brokers);
}

/// C63: where the file spells an ensemble.
#[test]
fn servers_are_refused_one_by_one_with_their_places() {
    let text = "{ \"zookeepers\": [\n\"z1:2181/a\",\n\"z2:0\"],\n\"zk_path\": \"a\",\n\"queue\": { \"kafka\": { \"brokers\": [\"k1\", \"k2:9092\"] } },\n\"consumer_groups\": [{ \"url\": \"http://a/\", \"topics\": [\"t\"], \"zookeepers\": [] }] }";
    let all = refused(text);
    let places: Vec<(usize, &str)> = all.iter().map(|(line, _, path, _)| (*line, path.as_str())).collect();
    let expected =
        [(2, "zookeepers[0]"), (3, "zookeepers[1]"), (4, "zk_path"), (5, "queue.kafka.brokers[0]"), (6, "consumer_groups[0].zookeepers")];
    assert_eq!(places, expected);
    assert!(all[0].3.contains("write \"zk_path\": \"/a\""), "{}", all[0].3);
    assert!(all[2].3.contains("did you mean \"/a\"?"), "{}", all[2].3);
}

#[test]
fn kafka_without_zookeeper_must_be_named() {
    let embedded = r#""coordinator": { "embedded": {} },"#;
    for (role, groups) in [(Role::Proxy, vec![r#", "brokers": ["k:1"]"#]), (Role::Pusher, vec![r#", "brokers": ["k:1"]"#, ""])] {
        let text = pusher(&format!(r#""queue": {{ "kafka": {{}} }}, {embedded}"#), &groups);
        let all = refused_for(role, &text);
        let [(_, _, path, message)] = all.as_slice() else { panic!("{all:?}") };
        assert!(path == "queue" && message.contains(r#""brokers": ["HOST:9092"]"#) && message.contains("--zookeepers"), "{message}");
    }
    let own = pusher(embedded, &[r#", "brokers": ["k:1"]"#, r#", "zookeepers": ["z"]"#]);
    let expected = [("k:1".to_owned(), "embedded".to_owned()), ("registered in z:2181".to_owned(), "embedded".to_owned())];
    assert_eq!(sites(&own, &Overrides::default()), expected);
    let named = pusher(&format!(r#""zookeepers": ["z"], {embedded}"#), &[""]);
    assert_eq!(sites(&named, &Overrides::default()), [("registered in z:2181".to_owned(), "embedded".to_owned())]);
}

#[test]
fn servers_that_say_less_than_one_may_think_are_warned_of() {
    let embedded = r#""coordinator": { "embedded": {} },"#;
    let own = pusher(embedded, &[r#", "zookeepers": ["z"]"#, r#", "zk_path": "/a", "brokers": ["k:1"]"#]);
    let said = warnings(&own);
    assert!(said[0].starts_with("consumer_groups[0].zookeepers: only says where Kafka's brokers are found"), "{said:?}");
    assert!(said[1].starts_with("consumer_groups[1].zk_path: has no effect"), "{said:?}");
}

#[test]
fn cursors_beside_kafka_lie_in_a_folder_of_the_usual_name() {
    let dir = |text: &str| match read_for(Role::Pusher, text).coordinator {
        CoordinatorConfig::Embedded { dir } => dir.display().to_string(),
        CoordinatorConfig::ZooKeeper(zookeeper) => zookeeper.ensemble.to_string(),
    };
    assert_eq!(dir(r#"{ "zookeepers": ["z"], "coordinator": { "embedded": {} } }"#), "./mqgate-data");
    assert_eq!(dir(r#"{ "zookeepers": ["z"], "coordinator": { "embedded": { "dir": "/c" } } }"#), "/c");
}

fn properties(fields: &str) -> String {
    format!("{{ \"queue\": {{ \"kafka\": {{ \"properties\": {{\n{fields} }} }} }} }}")
}

#[test]
fn properties_are_texts_numbers_or_booleans() {
    let text = properties(r#""security.protocol": "SASL_SSL", "linger.ms": 5, "socket.keepalive.enable": false"#);
    let QueueConfig::Kafka(queue) = read(&text).unwrap().config.queue else { panic!() };
    let found: Vec<(&str, Option<&str>)> = queue.properties.shown().collect();
    assert_eq!(found, [("linger.ms", Some("5")), ("security.protocol", Some("SASL_SSL")), ("socket.keepalive.enable", Some("false"))]);
}

#[test]
fn a_property_that_would_break_a_promise_or_the_client_is_refused_in_its_line() {
    let text = properties(
        "\"acks\": 1,\n\"security.protocl\": \"SSL\",\n\"security.protocol\": \"TLS\",\n\"linger.ms\": [],\n\"sasl.jaas.config\": \"x\"",
    );
    let all = refused(&text);
    let places: Vec<(usize, usize, &str)> = all.iter().map(|(line, column, path, _)| (*line, *column, path.as_str())).collect();
    let expected = [
        (2, 1, "queue.kafka.properties.acks"),
        (3, 1, "queue.kafka.properties.security.protocl"),
        (4, 22, "queue.kafka.properties.security.protocol"),
        (5, 14, "queue.kafka.properties.linger.ms"),
        (6, 21, "queue.kafka.properties.sasl.jaas.config"),
    ];
    assert_eq!(places, expected);
    assert!(all[0].3.starts_with("`acks` cannot be set: "), "{}", all[0].3);
    assert!(all[1].3.ends_with("did you mean `security.protocol`?"), "{}", all[1].3);
    assert!(all[2].3.contains("\"TLS\""), "{}", all[2].3);
    assert!(all[3].3.starts_with("expected a text, a number or a boolean"), "{}", all[3].3);
}

#[test]
fn passwords_of_kafka_are_found_and_never_shown() {
    let text = properties(
        r#""sasl.password": "geheim ü", "sasl.username": "env:CARGO_PKG_NAME", "ssl.key.password": "env:CARGO_PKG_NAME", "client.id": "me""#,
    );
    let loaded = read(&text).unwrap();
    let QueueConfig::Kafka(queue) = &loaded.config.queue else { panic!() };
    let value = |name: &str| queue.properties.expose().get(name).map(String::as_str);
    let found = ["sasl.password", "sasl.username", "ssl.key.password", "client.id"].map(value);
    assert_eq!(found, [Some("geheim ü"), Some("common"), Some("common"), Some("me")]);
    let shown = format!("{:?}{}{}", loaded.config, loaded.config.effective(), loaded.config.effective_in_one_line());
    assert!(!shown.contains("geheim") && !shown.contains("\"common\""), "{shown}");
    assert!(shown.contains(r#""sasl.username": "***""#) && shown.contains(r#""client.id": "me""#), "{shown}");
}

#[test]
fn a_password_is_not_shown_for_being_wrong() {
    for (field, value) in
        [("sasl.password", "12345678"), ("ssl.key.password", "[\"geheim\"]"), ("sasl.password", "\"geheim\", \"acks\": 1")]
    {
        let text = properties(&format!("\"{field}\": {value}, \"nonsense\": 1"));
        let shown = read(&text).unwrap_err().to_string();
        assert!(!shown.contains("12345678") && !shown.contains("geheim"), "{shown}");
    }
    let missing = refusal(&properties(r#""sasl.password": "env:MQGATE_NO_SUCH""#));
    assert!(missing.0 == "queue.kafka.properties.sasl.password" && missing.1.contains("MQGATE_NO_SUCH"), "{missing:?}");
}

#[test]
fn the_digest_is_a_user_and_a_password() {
    let file = |fields: &str| format!(r#"{{ "coordinator": {{ "zookeeper": {{ {fields} }} }} }}"#);
    let CoordinatorConfig::ZooKeeper(zookeeper) = read(&file(r#""digest": "u:p:q", "acl": "creator""#)).unwrap().config.coordinator else {
        panic!()
    };
    assert_eq!((zookeeper.digest.unwrap().expose(), zookeeper.acl), ("u:p:q", AclMode::Creator));
    for bad in ["nocolon", ":p", "u:"] {
        let (path, message) = refusal(&file(&format!("\"digest\": \"{bad}\"")));
        assert_eq!((path.as_str(), message.as_str()), ("coordinator.zookeeper.digest", "expected \"user:password\""));
    }
    let (path, message) = refusal(&file(r#""acl": "creator""#));
    assert!(path == "coordinator.zookeeper.acl" && message.contains("`digest`"), "{message}");
}

#[test]
fn the_shipped_file_without_zookeeper_also_runs_standalone() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/kafka-without-zookeeper.json");
    let config = load(Role::Standalone, &path, &Overrides::default()).unwrap_or_else(|faults| panic!("{faults}")).config;
    assert_eq!((&config.groups[0].brokers, &config.groups[0].ensemble), (&Some(listed(&["127.0.0.1:9092"])), &None));
}

//! One file, three commands: what each makes of it.

use super::*;

fn queue_kind(config: &Config) -> &'static str {
    match (&config.queue, &config.coordinator) {
        (QueueConfig::Embedded(_), CoordinatorConfig::Embedded { .. }) => "embedded",
        (QueueConfig::Kafka(_), CoordinatorConfig::Embedded { .. }) => "kafka",
        (QueueConfig::Kafka(_), CoordinatorConfig::ZooKeeper(_)) => "kafka and zookeeper",
        (QueueConfig::Embedded(_), CoordinatorConfig::ZooKeeper(_)) => "zookeeper",
    }
}

/// The contract's defaults.
#[test]
fn proxy_and_pusher_run_on_kafka_and_zookeeper_by_themselves() {
    let local = ensemble("127.0.0.1:2181");
    for role in [Role::Proxy, Role::Pusher] {
        let Loaded { config, warnings } = defaults(role, &Overrides::default()).unwrap();
        assert_eq!((config.role, warnings), (role, Vec::new()));
        let queue = KafkaQueueConfig {
            brokers: Brokers::Registered(local.clone()),
            properties: Properties::default(),
            compression: Compression::None,
            partitioner: Partitioner::Murmur2Random,
            auto_create_topics: false,
        };
        assert_eq!(config.queue, QueueConfig::Kafka(queue));
        let zookeeper = ZooKeeperConfig { ensemble: local.clone(), digest: None, acl: AclMode::Open };
        assert_eq!(config.coordinator, CoordinatorConfig::ZooKeeper(zookeeper));
    }
}

#[test]
fn standalone_is_embedded_until_the_file_says_otherwise() {
    for (text, kind) in [
        ("{}", "embedded"),
        (r#"{ "queue": { "embedded": {} }, "coordinator": { "embedded": {} } }"#, "embedded"),
        (r#"{ "queue": { "kafka": { "brokers": ["k:1"] } } }"#, "kafka"),
        (r#"{ "queue": { "kafka": { "brokers": ["k:1"] } }, "coordinator": { "zookeeper": {} } }"#, "kafka and zookeeper"),
        (r#"{ "queue": { "kafka": {} }, "zookeepers": ["z"] }"#, "kafka and zookeeper"),
        (r#"{ "queue": { "kafka": {} }, "zookeepers": ["z"], "coordinator": { "embedded": {} } }"#, "kafka"),
    ] {
        assert_eq!(queue_kind(&read_for(Role::Standalone, text)), kind, "{text}");
    }
}

#[test]
fn the_embedded_queue_is_refused_to_more_than_one_process() {
    for role in [Role::Proxy, Role::Pusher] {
        let all = refused_for(role, "{\n  \"queue\": { \"embedded\": {} } }");
        let [(line, column, path, message)] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((*line, *column, path.as_str()), (2, 26, "queue.embedded"));
        assert!(message.contains("`mqgate standalone`") && message.contains(&format!("`mqgate {role}` needs Kafka")), "{message}");
    }
}

/// One contradiction does not hide what else is wrong.
#[test]
fn every_fault_about_servers_is_reported_at_once() {
    let text = r#"{ "zookeepers": ["z:0"], "queue": { "embedded": {}, "kafka": { "brokers": ["k"], "properties": { "acks": 1 } } },
        "coordinator": { "embedded": {}, "zookeeper": { "acl": "creator" } }, "proxy": { "compression": "zip" },
        "consumer_groups": [{ "url": "http://a/", "topics": ["t"], "zk_path": "a" }] }"#;
    let paths: Vec<String> = refused(text).into_iter().map(|(_, _, path, _)| path).collect();
    let expected = [
        "zookeepers[0]",
        "queue.kafka",
        "queue.kafka.brokers[0]",
        "queue.kafka.properties.acks",
        "coordinator.zookeeper",
        "coordinator.zookeeper.acl",
        "proxy.compression",
        "consumer_groups[0].zk_path",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn there_is_one_queue_and_one_coordinator() {
    let both = "{ \"queue\": {\n\"embedded\": {},\n\"kafka\": {} } }";
    let (path, message) = refusal(both);
    assert!(path == "queue.kafka" && message.contains("in line 2; keep one"), "{path}: {message}");
    let both = "{ \"zookeepers\": [\"z\"], \"coordinator\": {\n\"zookeeper\": {},\n\"embedded\": {} } }";
    let (path, message) = refusal(both);
    assert!(path == "coordinator.zookeeper" && message.contains("in line 3; keep one"), "{path}: {message}");
}

/// Two processes with a log each would share the cursors of neither.
#[test]
fn cursors_of_the_embedded_queue_are_not_kept_in_zookeeper() {
    let all = refused_for(Role::Standalone, r#"{ "coordinator": { "zookeeper": {} } }"#);
    assert!(all.len() == 1 && all[0].2 == "coordinator.zookeeper" && all[0].3.contains("lie beside it"), "{all:?}");
}

#[test]
fn what_belongs_to_kafka_is_refused_beside_the_embedded_queue() {
    for (text, path) in [
        (r#"{ "zookeepers": ["z"] }"#, "zookeepers"),
        (r#"{ "zk_path": "/" }"#, "zk_path"),
        (r#"{ "proxy": { "compression": "gzip" } }"#, "proxy.compression"),
        (r#"{ "proxy": { "partitioner": "fnv1a" } }"#, "proxy.partitioner"),
        (&group_file(r#""zookeepers": ["z"]"#), "consumer_groups[0].zookeepers"),
        (&group_file(r#""zk_path": "/a""#), "consumer_groups[0].zk_path"),
        (&group_file(r#""brokers": ["k:1"]"#), "consumer_groups[0].brokers"),
    ] {
        let all = refused_for(Role::Standalone, text);
        let name = path.rsplit('.').next().unwrap();
        assert!(all.len() == 1 && all[0].2 == path, "{text}: {all:?}");
        assert!(all[0].3.starts_with(&format!("`{name}` belongs to a Kafka queue")), "{}", all[0].3);
    }
    assert!(read(r#"{ "proxy": { "compression": "none", "partitioner": "murmur2_random" }, "zookeepers": null }"#).is_ok());
    assert!(refusal(r#"{ "proxy": { "partitioner": "murmur2random" } }"#).1.contains("did you mean `murmur2_random`?"));
    assert!(warnings(r#"{ "proxy": { "auto_create_topics": false } }"#).concat().contains("`queue.embedded.auto_create_topics`"));
}

#[test]
fn a_file_is_judged_by_what_it_says() {
    for (text, role) in [
        ("{}", Role::Standalone),
        (r#"{ "queue": { "embedded": {} } }"#, Role::Standalone),
        (r#"{ "queue": { "kafka": {} } }"#, Role::Pusher),
        (r#"{ "coordinator": { "zookeeper": {} } }"#, Role::Pusher),
        (r#"{ "zk_path": "/a" }"#, Role::Pusher),
        (&group_file(r#""brokers": ["k:1"]"#), Role::Pusher),
        (&group_file(r#""zookeepers": null"#), Role::Standalone),
    ] {
        assert_eq!(read(text).unwrap_or_else(|faults| panic!("{faults}")).config.role, role, "{text}");
    }
}

#[test]
fn each_process_has_its_admin_port() {
    let overrides = Overrides { admin: Some("127.0.0.1:7".to_owned()), ..Overrides::default() };
    let ports = |role| {
        let config = defaults(role, &overrides).unwrap().config;
        (config.proxy.admin.port(), config.pusher.admin.port())
    };
    assert_eq!((ports(Role::Standalone), ports(Role::Proxy), ports(Role::Pusher)), ((9089, 7), (7, 9091), (9089, 7)));
    let text = r#"{ "zookeepers": ["z"], "proxy": { "listen": "127.0.0.1:9091" } }"#;
    assert_eq!(read_for(Role::Proxy, text).proxy.listen.port(), 9091, "another process has the pusher's port");
    let text = r#"{ "zookeepers": ["z"], "proxy": { "listen": "127.0.0.1:9089" } }"#;
    assert_eq!(refused_for(Role::Proxy, text)[0].2, "proxy.admin");
    assert_eq!(read_for(Role::Pusher, text).pusher.admin.port(), 9091);
}

#[test]
fn flags_say_kafka_too() {
    let brokers = Overrides { brokers: Some("k2:9092, k1:9092".to_owned()), ..Overrides::default() };
    let config = defaults(Role::Standalone, &brokers).unwrap().config;
    assert!(matches!(&config.queue, QueueConfig::Kafka(queue) if queue.brokers == listed(&["k1:9092", "k2:9092"])));
    assert_eq!(queue_kind(&config), "kafka");
    let zookeepers = Overrides { zookeepers: Some("z2,z1:2181/kafka".to_owned()), ..Overrides::default() };
    let config = defaults(Role::Standalone, &zookeepers).unwrap().config;
    let theirs = Brokers::Registered(ensemble("z1:2181,z2:2181/kafka"));
    assert!(matches!(&config.queue, QueueConfig::Kafka(queue) if queue.brokers == theirs));
    let embedded = parse(Role::Standalone, "t.json", br#"{ "queue": { "embedded": {} } }"#, &brokers);
    assert_eq!(seen(&embedded.unwrap_err())[0].2, "--brokers");
}

#[test]
fn a_flag_without_a_path_does_not_leave_the_file_s() {
    let chroot = |flag: &str| {
        let overrides = Overrides { zookeepers: Some(flag.to_owned()), ..Overrides::default() };
        let loaded = parse(Role::Pusher, "t.json", br#"{ "zookeepers": ["z0"], "zk_path": "/kafka" }"#, &overrides).unwrap();
        let CoordinatorConfig::ZooKeeper(zookeeper) = loaded.config.coordinator else { panic!() };
        zookeeper.ensemble.to_string()
    };
    assert_eq!((chroot("z1"), chroot("z1/"), chroot("z1/b")), ("z1:2181/kafka".to_owned(), "z1:2181".to_owned(), "z1:2181/b".to_owned()));
}

#[test]
fn wrong_servers_of_flags_are_reported_by_their_names() {
    let overrides = Overrides {
        brokers: Some("k1".to_owned()),
        zookeepers: Some("z1/a,z2/a".to_owned()),
        data_dir: Some("/d".into()),
        ..Overrides::default()
    };
    let all = seen(&defaults(Role::Pusher, &overrides).unwrap_err());
    assert_eq!(all.iter().map(|(_, _, path, _)| path.as_str()).collect::<Vec<_>>(), ["--brokers", "--zookeepers"]);
    assert!(all[0].3.contains("\"k1:9092\"") && all[1].3.contains("one path for all"), "{all:?}");
    let folder = Overrides { data_dir: Some("/d".into()), ..Overrides::default() };
    assert!(said(&defaults(Role::Pusher, &folder).unwrap()).concat().starts_with("--data-dir: has no effect"));
}

/// Another name on each reload would be another member of the fleet.
#[test]
fn a_process_keeps_its_name() {
    let name = |_| defaults(Role::Pusher, &Overrides::default()).unwrap().config.pusher.instance;
    assert_eq!(name(1), name(2));
}

//! C68: what a running process takes up, and what it refuses by name.

use super::*;

fn reload(role: Role, old: &str, new: &str) -> Vec<String> {
    read_for(role, old).reload(&read_for(role, new)).err().unwrap_or_default()
}

const GROUPS: &str = r#"{ "consumer_groups": [
    { "group": "a", "url": "http://a/", "topics": ["t"] },
    { "group": "b", "url": "http://b/", "topics": ["t"] },
    { "url": "http://c/", "topics": ["u"] } ] }"#;

#[test]
fn groups_come_go_and_change() {
    let new = r#"{ "consumer_groups": [
        { "group": "a", "url": "http://elsewhere/", "topics": ["t", "v"], "timeout": "9s", "retry_times": 7 },
        { "url": "http://c/", "topics": ["u"], "worker_num": 3 },
        { "group": "d", "url": "http://d/", "topics": ["t"] } ] }"#;
    for role in [Role::Standalone, Role::Pusher, Role::Proxy] {
        assert_eq!(reload(role, GROUPS, new), Vec::<String>::new(), "{role}");
        assert_eq!(reload(role, GROUPS, GROUPS), Vec::<String>::new(), "{role}");
    }
}

#[test]
fn what_needs_a_restart_is_named_with_both_values() {
    let old = r#"{ "queue": { "embedded": { "retention": "7d" } }, "proxy": { "listen": "127.0.0.1:1", "produce_timeout": "5s" }, "pusher": { "admin": "127.0.0.1:2" } }"#;
    let new = r#"{ "queue": { "embedded": { "retention": "8d" } }, "proxy": { "listen": "127.0.0.1:3", "produce_timeout": "5s" }, "pusher": { "admin": "127.0.0.1:4" } }"#;
    let expected = [
        r#"`proxy.listen` cannot change without a restart: it is "127.0.0.1:1", and would be "127.0.0.1:3""#,
        r#"`pusher.admin` cannot change without a restart: it is "127.0.0.1:2", and would be "127.0.0.1:4""#,
        r#"`queue.embedded.retention` cannot change without a restart: it is "7d", and would be "8d""#,
    ];
    assert_eq!(reload(Role::Standalone, old, new), expected);
}

#[test]
fn another_kind_of_queue_is_one_reason() {
    let said = reload(Role::Standalone, "{}", r#"{ "queue": { "kafka": { "brokers": ["k:1"] } } }"#);
    assert_eq!(said[0], "`queue` cannot change without a restart: it is `embedded`, and would be `kafka`");
    assert!(!said.iter().any(|text| text.contains("queue.")), "{said:?}");
    let new = r#"{ "queue": { "kafka": { "brokers": ["k:1"] } }, "coordinator": { "embedded": {} } }"#;
    let said = reload(Role::Pusher, r#"{ "queue": { "kafka": { "brokers": ["k:1"] } } }"#, new);
    assert_eq!(said[0], "`coordinator` cannot change without a restart: it is `zookeeper`, and would be `embedded`");
}

#[test]
fn servers_and_properties_need_a_restart() {
    let file = |ensemble: &str, properties: &str| {
        format!(r#"{{ "zookeepers": [{ensemble}], "queue": {{ "kafka": {{ "brokers": ["k:1"], "properties": {{ {properties} }} }} }} }}"#)
    };
    let old = file(r#""a:1", "b:1""#, r#""linger.ms": 1, "client.id": "x""#);
    assert_eq!(reload(Role::Pusher, &old, &file(r#""b:1", "a:1""#, r#""linger.ms": 1, "client.id": "x""#)), Vec::<String>::new());
    let expected = [
        r#"`queue.kafka.properties.client.id` cannot change without a restart: it is "x", and would be gone"#,
        r#"`queue.kafka.properties.client.rack` cannot change without a restart: it is not there, and would be "y""#,
        r#"`zookeepers` cannot change without a restart: it is ["a:1","b:1"], and would be ["a:1"]"#,
    ];
    assert_eq!(reload(Role::Pusher, &old, &file(r#""a:1""#, r#""linger.ms": 1, "client.rack": "y""#)), expected);
}

#[test]
fn a_changed_secret_is_named_and_not_shown() {
    let file = |secret: &str| {
        format!(
            r#"{{ "queue": {{ "kafka": {{ "properties": {{ "sasl.password": "{secret}" }} }} }}, "coordinator": {{ "zookeeper": {{ "digest": "u:{secret}" }} }},
            "pusher": {{ "admin_token": "{secret}" }} }}"#
        )
    };
    let said = reload(Role::Pusher, &file("first-one"), &file("second-one"));
    let paths = ["coordinator.zookeeper.digest", "pusher.admin_token", "queue.kafka.properties.sasl.password"];
    assert_eq!(said, paths.map(|path| format!("`{path}` cannot change without a restart: the new one is another")));
    assert_eq!(reload(Role::Pusher, &file("same"), &file("same")), Vec::<String>::new());
}

#[test]
fn what_another_process_uses_does_not_stop_a_reload() {
    let old = r#"{ "zookeepers": ["z"], "proxy": { "listen": "127.0.0.1:1" }, "pusher": { "session_timeout": "15s" } }"#;
    let new =
        r#"{ "zookeepers": ["z"], "proxy": { "listen": "127.0.0.1:2", "compression": "zstd" }, "pusher": { "session_timeout": "20s" } }"#;
    let named = |role| {
        let path = |text: String| text.split('`').nth(1).unwrap().to_owned();
        reload(role, old, new).into_iter().map(path).collect::<Vec<_>>()
    };
    assert_eq!(named(Role::Proxy), ["proxy.compression", "proxy.listen"]);
    assert_eq!(named(Role::Pusher), ["proxy.compression", "pusher.session_timeout"]);
}

fn one_group(fields: &str) -> String {
    format!(r#"{{ "consumer_groups": [{{ {fields} }}] }}"#)
}

/// The name is made of the URL, and the cursors lie under the name.
#[test]
fn another_url_without_a_name_is_refused_with_the_line_that_keeps_the_cursors() {
    let old = one_group(r#""url": "http://user:geheim@old/", "topics": ["a", "b"]"#);
    let new = r#""url": "http://new/", "topics": ["c", "b"]"#;
    let name = |text: &str| read_for(Role::Pusher, text).groups[0].group.as_str().to_owned();
    let (old_name, new_name) = (name(&old), name(&one_group(new)));
    let said = reload(Role::Pusher, &old, &one_group(new));
    let [text] = said.as_slice() else { panic!("{said:?}") };
    for part in [
        format!("the group {old_name} of http://***@old/ would be gone"),
        format!("write `\"group\": \"{old_name}\"` into the entry of http://new/"),
        format!("if it is another, write `\"group\": \"{new_name}\"`"),
        "begin anew with b".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    assert!(!text.contains("geheim"), "{text}");
    for name in [old_name, new_name] {
        let named = one_group(&format!("\"group\": \"{name}\", {new}"));
        assert_eq!(reload(Role::Pusher, &old, &named), Vec::<String>::new(), "as the message says");
    }
}

#[test]
fn only_unnamed_groups_of_shared_topics_are_taken_for_moved() {
    let old = one_group(r#""url": "http://old/", "topics": ["a"]"#);
    assert_eq!(reload(Role::Pusher, &old, &one_group(r#""url": "http://new/", "topics": ["b"]"#)), Vec::<String>::new());
    assert_eq!(reload(Role::Pusher, &old, r#"{ "consumer_groups": [] }"#), Vec::<String>::new());
    assert_eq!(reload(Role::Pusher, r#"{ "consumer_groups": [] }"#, &old), Vec::<String>::new());
    let both = r#"{ "consumer_groups": [{ "url": "http://old/", "topics": ["a"] }, { "url": "http://new/", "topics": ["a"] }] }"#;
    assert_eq!(reload(Role::Pusher, &old, both), Vec::<String>::new(), "the old one is still there");
    let named = one_group(r#""group": "g", "url": "http://old/", "topics": ["a"]"#);
    let moved = one_group(r#""group": "g", "url": "http://new/", "topics": ["a"]"#);
    assert_eq!(reload(Role::Pusher, &named, &moved), Vec::<String>::new());
}

#[test]
fn each_pair_that_may_have_moved_is_named() {
    let old = r#"{ "consumer_groups": [{ "url": "http://o1/", "topics": ["a"] }, { "url": "http://o2/", "topics": ["a", "b"] }] }"#;
    let new = r#"{ "consumer_groups": [{ "url": "http://n1/", "topics": ["b"] }, { "url": "http://n2/", "topics": ["a"] }] }"#;
    let said = reload(Role::Pusher, old, new);
    let pairs: Vec<bool> = [("o2", "n1"), ("o1", "n2"), ("o2", "n2")]
        .iter()
        .map(|(old, new)| said.iter().any(|text| text.contains(&format!("//{old}/")) && text.contains(&format!("//{new}/"))))
        .collect();
    assert_eq!((said.len(), pairs), (3, vec![true; 3]));
}

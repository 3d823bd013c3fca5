//! What is shipped is valid, current and documented.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::*;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn shipped() -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join("configs")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|ext| ext == "json"));
    files.filter(|path| !path.to_string_lossy().ends_with(".schema.json")).collect()
}

/// Compares a generated text with the shipped one, or with MQGATE_WRITE set writes it.
fn hold(path: &str, generated: &str, shipped: impl Fn(&str) -> Option<String>, write: impl Fn(&str) -> String) {
    let path = repository().join(path);
    let file = fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("MQGATE_WRITE").is_some() {
        fs::write(&path, write(&file)).unwrap();
        return;
    }
    let current = shipped(&file).unwrap_or_default();
    assert!(current == generated, "{} is not current; run MQGATE_WRITE=1 cargo test -p common config", path.display());
}

#[test]
fn every_shipped_configuration_is_valid() {
    let files = shipped();
    assert!(files.len() >= 7);
    for path in files {
        let loaded = load(JUDGED, &path, &Overrides::default()).unwrap_or_else(|faults| panic!("{faults}"));
        if loaded.config.role == Role::Pusher {
            load(Role::Proxy, &path, &Overrides::default()).unwrap_or_else(|faults| panic!("{faults}"));
        }
    }
}

/// What the schema accepts and what the reader accepts are two programs: each shipped file must please both.
#[test]
fn shipped_configurations_please_the_schema() {
    let schema = jsonschema::validator_for(&json_schema()).unwrap();
    for path in shipped() {
        let text = fs::read_to_string(&path).unwrap();
        let value: serde_json::Value = jsonc_parser::parse_to_serde_value(&text, &Default::default()).unwrap();
        let complaints: Vec<String> = schema.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert_eq!(complaints, Vec::<String>::new(), "{}", path.display());
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema = jsonschema::validator_for(&json_schema()).unwrap();
    for text in [
        r#"{ "lisen": 1 }"#,
        r#"{ "zookeepers": "127.0.0.1:2181" }"#,
        r#"{ "queue": { "kafka": { "properties": { "linger.ms": [] } } } }"#,
        r#"{ "consumer_groups": [{ "url": "http://rx/" }] }"#,
        r#"{ "consumer_groups": [{ "url": "http://rx/", "topics": [] }] }"#,
        r#"{ "proxy": { "produce_timeout": 5 } }"#,
        r#"{ "proxy": { "max_message_bytes": "64 MB" } }"#,
        r#"{ "consumer_groups": [{ "url": "http://rx/", "topics": ["a"], "order": "keys" }] }"#,
    ] {
        assert!(!schema.is_valid(&serde_json::from_str(text).unwrap()) && read(text).is_err(), "{text}");
    }
}

#[test]
fn the_shipped_schema_is_current() {
    let generated = format!("{:#}\n", json_schema());
    hold("configs/mqgate.schema.json", &generated, |file| Some(file.to_owned()), |_| generated.clone());
}

const BEGIN: &str = "<!-- fields -->\n";
const END: &str = "<!-- end of fields -->\n";

#[test]
fn the_reference_is_current() {
    let between = |file: &str| Some(file.split_once(BEGIN)?.1.split_once(END)?.0.to_owned());
    let write = |file: &str| {
        let (before, rest) = file.split_once(BEGIN).unwrap();
        format!("{before}{BEGIN}{}{END}{}", reference(), rest.split_once(END).unwrap().1)
    };
    hold("docs/configuration.md", &reference(), between, write);
}

/// Both ways, by the document's own tables: whoever edits it by hand is told.
#[test]
fn every_field_is_documented_and_nothing_else_is() {
    let document = fs::read_to_string(repository().join("docs/configuration.md")).unwrap();
    let mut section = String::new();
    let mut documented = BTreeSet::new();
    for line in document.split_once(BEGIN).unwrap().1.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            section = title.strip_prefix('`').map_or(String::new(), |path| format!("{}.", path.trim_end_matches('`')));
        } else if let Some(cell) = line.strip_prefix("| `").filter(|line| line.matches(" | ").count() >= 3) {
            documented.insert(format!("{section}{}", cell.split_once('`').unwrap().0));
        }
    }
    let mut fields = BTreeSet::new();
    schema::visit("", &<File as section::Section>::fields(), &mut |path, _| {
        fields.insert(path.to_owned());
    });
    assert_eq!(documented, fields);
}

/// The example that the original was published with, letter by letter.
#[test]
fn the_original_s_example_runs_unmodified() {
    let path = repository().join("configs/original.json");
    let local = ensemble("127.0.0.1:2181");
    for role in [Role::Proxy, Role::Pusher] {
        let Loaded { config, .. } = load(role, &path, &Overrides::default()).unwrap_or_else(|faults| panic!("{faults}"));
        let [group] = config.groups.as_slice() else { panic!("one group") };
        // echo -n http://localhost | md5sum
        assert_eq!((group.group.as_str(), group.named), ("86a9106ae65537651a8e456835b316ab", false));
        assert_eq!((group.worker_num, group.retry_times, group.bypass_failed), (16, 4, true));
        assert_eq!((group.failed_sleep, group.timeout), (Duration::from_secs(5), Duration::from_secs(3)));
        assert_eq!(group.topics, [Topic::new("test").unwrap()]);
        assert_eq!((&group.brokers, &group.ensemble), (&Some(Brokers::Registered(local.clone())), &Some(local.clone())));
        let QueueConfig::Kafka(queue) = config.queue else { panic!("{role}") };
        assert_eq!(queue.brokers, Brokers::Registered(local.clone()));
    }
    let refused = seen(&load(Role::Standalone, &path, &Overrides::default()).unwrap_err());
    let [(line, column, at, message)] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!((*line, *column, at.as_str()), (13, 27, "consumer_groups[0].zookeepers"));
    assert!(message.contains("`mqgate pusher` takes Kafka"), "{message}");
}

/// Every field of the original, in the spelling of its README: those that mean nothing here are warned of, each with what replaces it.
#[test]
fn every_field_of_the_original_is_read_or_warned_of() {
    let path = repository().join("configs/original-every-field.json");
    let loaded = load(Role::Pusher, &path, &Overrides::default()).unwrap_or_else(|faults| panic!("{faults}"));
    let said = said(&loaded).join("\n");
    for ignored in [
        "consumer_groups[0].offset",
        "consumer_groups[0].connection_pool_size",
        "consumer_groups[0].arbiter_config",
        "consumer_groups[0].transporter_name",
        "consumer_groups[0].transporter_config",
        "stat_server_port",
        "connection_pool_size",
        "log_file",
        "log_collect_ratio",
    ] {
        assert!(
            said.lines().any(|line| line.starts_with(&format!("{ignored}: ")) && line.contains("has no effect here: ")),
            "{ignored}: {said}"
        );
    }
    let [first, second] = loaded.config.groups.as_slice() else { panic!("two groups") };
    assert_eq!((first.order, first.serializer, &first.content_type), (Order::Partition, Serializer::Json, &None));
    assert_eq!((first.failed_sleep, first.initial_from), (Duration::from_secs(12), InitialFrom::Newest));
    assert_eq!(first.ensemble, Some(ensemble("127.0.0.1:2181/chroot")));
    assert_eq!(first.ensemble, second.ensemble);
    assert_eq!(second.order, Order::Key, "the original's default was its sequential arbiter");
}

//! What is shipped is valid, current and documented.

use std::collections::BTreeSet;
use std::fs;

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
    assert!(files.len() >= 2);
    for path in files {
        load(&path, &Overrides::default()).unwrap_or_else(|faults| panic!("{faults}"));
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
        r#"{ "zookeepers": ["127.0.0.1:2181"] }"#,
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

/// Seed 002's file, letter by letter: it parses, and what it needs is named.
#[test]
fn the_original_s_example_is_refused_only_for_its_zookeepers() {
    let text = r#"{
    "consumer_groups": [                //support multi callback url
        {
            "worker_num": 16,
            "url": "http://localhost",  //callback url
            "retry_times": 4,           //will retry if the callback request response non 200 code
            "bypass_failed":true,       //auto jump to next if single message were processed failed,set to false if service need to process message exactlly
            "failed_sleep":"5s",       //when bypass_failed set to true,sleep this time before retry
            "timeout": "3s",            //the callback time
            "topics": [                 //topic(s) consumed
                "test"
            ],
            "zookeepers": [             //zookeeper hosts
                "127.0.0.1:2181"
            ],
        }
    ]
}
"#;
    let expected = "`zookeepers` needs ZooKeeper, which this version does not have yet".to_owned();
    assert_eq!(refused(text), [(13, 13, "consumer_groups[0].zookeepers".to_owned(), expected)]);
    let without = text.replace("\"zookeepers\": [             //zookeeper hosts\n                \"127.0.0.1:2181\"\n            ],", "");
    let group = read(&without).unwrap_or_else(|faults| panic!("{faults}")).config.groups.remove(0);
    assert_eq!((group.worker_num, group.retry_times, group.bypass_failed), (16, 4, true));
    assert_eq!((group.failed_sleep, group.timeout), (Duration::from_secs(5), Duration::from_secs(3)));
}

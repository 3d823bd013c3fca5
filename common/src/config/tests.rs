//! The promises of the configuration, each as a test.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::coordinator::zookeeper::AclMode;
use crate::queue::kafka::{Compression, Partitioner};

mod addresses;
mod bounds;
mod effective;
mod groups;
mod kafka;
mod properties;
mod reload;
mod roles;
mod shipped;
mod syntax;
mod values;

/// A place in the file by line and column, the path, and the message.
type Seen = (usize, usize, String, String);

/// By what the file says.
const JUDGED: Option<Role> = None;

fn read(text: &str) -> Result<Loaded, Faults> {
    parse(JUDGED, "t.json", text.as_bytes(), &Overrides::default())
}

fn seen(faults: &Faults) -> Vec<Seen> {
    let of = |fault: &Fault| match &fault.place {
        Place::At { position, .. } => (position.line, position.column, fault.path.clone(), fault.message.clone()),
        Place::File { .. } | Place::CommandLine => (0, 0, fault.path.clone(), fault.message.clone()),
    };
    faults.0.iter().map(of).collect()
}

fn refused(text: &str) -> Vec<Seen> {
    seen(&read(text).expect_err(text))
}

/// The only fault's path and message.
fn refusal(text: &str) -> (String, String) {
    let all = refused(text);
    assert_eq!(all.len(), 1, "{text}: {all:?}");
    (all[0].2.clone(), all[0].3.clone())
}

/// A file with one group that has `fields` beside its URL and its topic.
fn group_file(fields: &str) -> String {
    format!(r#"{{ "consumer_groups": [{{ "url": "http://rx/", "topics": ["t"], {fields} }}] }}"#)
}

fn group(fields: &str) -> GroupConfig {
    let loaded = read(&group_file(fields)).unwrap_or_else(|faults| panic!("{fields}: {faults}"));
    loaded.config.groups[0].clone()
}

fn said(loaded: &Loaded) -> Vec<String> {
    loaded.warnings.iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect()
}

fn warnings(text: &str) -> Vec<String> {
    said(&read(text).unwrap_or_else(|faults| panic!("{faults}")))
}

/// As that command reads it.
fn read_for(role: Role, text: &str) -> Config {
    parse(role, "t.json", text.as_bytes(), &Overrides::default()).unwrap_or_else(|faults| panic!("{role}: {text}: {faults}")).config
}

/// Why that command refuses it.
fn refused_for(role: Role, text: &str) -> Vec<Seen> {
    seen(&parse(role, "t.json", text.as_bytes(), &Overrides::default()).expect_err(text))
}

fn ensemble(text: &str) -> Ensemble {
    Ensemble::parse(text).unwrap()
}

fn listed(brokers: &[&str]) -> Brokers {
    Brokers::Listed(brokers.iter().map(|broker| (*broker).to_owned()).collect())
}

//! The promises of the configuration, each as a test.
#![allow(clippy::unwrap_used)]

use super::*;

mod addresses;
mod bounds;
mod effective;
mod groups;
mod properties;
mod shipped;
mod syntax;
mod values;

/// A place in the file by line and column, the path, and the message.
type Seen = (usize, usize, String, String);

fn read(text: &str) -> Result<Loaded, Faults> {
    parse("t.json", text.as_bytes(), &Overrides::default())
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

fn warnings(text: &str) -> Vec<String> {
    let of = |warning: &Warning| format!("{}: {}", warning.path, warning.message);
    read(text).unwrap_or_else(|faults| panic!("{faults}")).warnings.iter().map(of).collect()
}

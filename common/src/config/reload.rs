//! What a running process can take up of a new configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::effective::Secrets;
use super::leaf::url;
use super::{Config, GroupConfig, Role};
use crate::ids::Topic;

/// Of the proxy's section, what all that write to Kafka use; a pusher writes dead letters.
const OF_EVERY_WRITER: [&str; 5] = ["produce_timeout", "max_message_bytes", "compression", "partitioner", "auto_create_topics"];

impl Config {
    /// Whether a process that runs with this can go on with `new`: groups may come, go and change.
    ///
    /// # Errors
    /// All that stands against it, by name: what cannot change without a restart, with what it is
    /// and would be, secrets excepted; and groups that would lose their cursors, because their name
    /// is made of a URL that changed.
    pub fn reload(&self, new: &Self) -> Result<(), Vec<String>> {
        let mut against = fixed(self, new);
        against.extend(renamed(&self.groups, &new.groups));
        if against.is_empty() { Ok(()) } else { Err(against) }
    }
}

fn fixed(old: &Config, new: &Config) -> Vec<String> {
    let (old_shown, new_shown) = (old.to_json(Secrets::Hidden), new.to_json(Secrets::Hidden));
    let kinds = ["queue", "coordinator"].map(|part| (part, kind(&old_shown[part]), kind(&new_shown[part])));
    let mut against: Vec<String> = Vec::new();
    for (part, was, will_be) in kinds.iter().filter(|(part, was, will_be)| concerns(old.role, part) && was != will_be) {
        against.push(format!("`{part}` cannot change without a restart: it is `{was}`, and would be `{will_be}`"));
    }
    let is_told = |path: &str| kinds.iter().any(|(part, was, will_be)| was != will_be && path.split('.').next() == Some(*part));
    let (shown, will_show) = (leaves(&old_shown), leaves(&new_shown));
    let (is, will_be) = (leaves(&old.to_json(Secrets::Exposed)), leaves(&new.to_json(Secrets::Exposed)));
    let paths: BTreeSet<&String> = is.keys().chain(will_be.keys()).collect();
    let changed = paths.into_iter().filter(|path| concerns(old.role, path) && !is_told(path) && is.get(*path) != will_be.get(*path));
    against.extend(changed.map(|path| message(path, shown.get(path), will_show.get(path))));
    against
}

/// Whether a process of that role uses what is at `path`, and cannot take up another while it runs.
fn concerns(role: Role, path: &str) -> bool {
    let (part, field) = path.split_once('.').unwrap_or((path, ""));
    match (part, role) {
        ("consumer_groups", _) | ("coordinator" | "pusher", Role::Proxy) => false,
        ("proxy", Role::Pusher) => OF_EVERY_WRITER.contains(&field),
        _ => true,
    }
}

/// `embedded`, `kafka`, `zookeeper`: the one field there is.
fn kind(part: &Value) -> String {
    part.as_object().and_then(|part| part.keys().next()).cloned().unwrap_or_default()
}

/// Every value that is no object, by its path.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    fn collect(path: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
        let Value::Object(fields) = value else {
            found.insert(path.to_owned(), value.clone());
            return;
        };
        for (name, value) in fields {
            collect(&if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, value, found);
        }
    }
    let mut found = BTreeMap::new();
    collect("", value, &mut found);
    found
}

fn message(path: &str, is: Option<&Value>, will_be: Option<&Value>) -> String {
    let change = match (is, will_be) {
        // What differs and is shown alike is a secret.
        (Some(is), Some(will_be)) if is == will_be => "the new one is another".to_owned(),
        (Some(is), Some(will_be)) => format!("it is {is}, and would be {will_be}"),
        (Some(is), None) => format!("it is {is}, and would be gone"),
        (None, Some(will_be)) => format!("it is not there, and would be {will_be}"),
        (None, None) => String::new(),
    };
    format!("`{path}` cannot change without a restart: {change}")
}

/// C68: a group without a name of its own that vanishes, while another such group comes for some of
/// its topics, has probably only moved; its cursors would be left behind under the old name.
fn renamed(old: &[GroupConfig], new: &[GroupConfig]) -> Vec<String> {
    let gone: Vec<&GroupConfig> = unnamed_and_not_in(old, new).collect();
    let moves = unnamed_and_not_in(new, old).flat_map(|came| gone.iter().map(move |gone| (*gone, came)));
    moves.filter_map(|(gone, came)| Some(explain(gone, came, shared(gone, came)?))).collect()
}

fn unnamed_and_not_in<'g>(groups: &'g [GroupConfig], others: &'g [GroupConfig]) -> impl Iterator<Item = &'g GroupConfig> {
    groups.iter().filter(|group| !group.named && !others.iter().any(|other| other.group == group.group))
}

fn shared<'g>(gone: &GroupConfig, came: &'g GroupConfig) -> Option<&'g Topic> {
    came.topics.iter().find(|topic| gone.topics.contains(topic))
}

fn explain(gone: &GroupConfig, came: &GroupConfig, topic: &Topic) -> String {
    let (old_url, new_url) = (url::shown(&gone.url.to_string()), url::shown(&came.url.to_string()));
    let (old_name, new_name) = (gone.group.as_str(), came.group.as_str());
    format!(
        "consumer_groups: the group {old_name} of {old_url} would be gone, and the one of {new_url} would begin anew with {topic}: a group \
         without a name is named by its `url`. If it is the same receiver, write `\"group\": \"{old_name}\"` into the entry of {new_url}, and \
         its cursors are kept; if it is another, write `\"group\": \"{new_name}\"`"
    )
}

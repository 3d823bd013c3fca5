//! Real input: the 329 published GitHub webhook payloads of an npm package, cycled.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

const PACKAGE: &str = "@octokit/webhooks-examples@7.6.1";

#[derive(Debug, Clone)]
pub struct Example {
    /// Such as `issues`.
    pub event: String,
    /// Such as `opened`; empty where there is none.
    pub action: String,
    pub body: Bytes,
}

/// A message made of the `n`th example: its key is event, action and a number below `spread`, so
/// that keys are many and skewed.
#[derive(Debug, Clone)]
pub struct Sample {
    pub key: String,
    pub event: String,
    pub body: Bytes,
}

pub fn sample(n: usize, spread: usize) -> Sample {
    let examples = examples();
    let example = &examples[n % examples.len()];
    let key = format!("{}.{}.{}", example.event, example.action, (n / examples.len()) % spread);
    Sample { key, event: example.event.clone(), body: example.body.clone() }
}

pub fn examples() -> &'static [Example] {
    static EXAMPLES: OnceLock<Vec<Example>> = OnceLock::new();
    EXAMPLES.get_or_init(|| {
        let text = std::fs::read_to_string(fetch()).unwrap();
        let events: Vec<Value> = serde_json::from_str(&text).unwrap();
        let examples: Vec<Example> = events.iter().flat_map(of_event).collect();
        assert_eq!(examples.len(), 329, "the package has changed");
        examples
    })
}

fn of_event(event: &Value) -> Vec<Example> {
    let name = event["name"].as_str().unwrap();
    let examples = event["examples"].as_array().unwrap();
    let one = |body: &Value| Example {
        event: name.to_owned(),
        action: body["action"].as_str().unwrap_or("").to_owned(),
        body: Bytes::from(serde_json::to_vec(body).unwrap()),
    };
    examples.iter().map(one).collect()
}

/// Fetches and unpacks the package once per checkout.
fn fetch() -> PathBuf {
    let dir = crate::binary::cache().join("webhooks-examples-7.6.1");
    let index = dir.join("package/api.github.com/index.json");
    if !index.exists() {
        std::fs::create_dir_all(&dir).unwrap();
        run(Command::new("npm").args(["pack", "--silent", PACKAGE]).current_dir(&dir));
        run(Command::new("tar").args(["xzf", "octokit-webhooks-examples-7.6.1.tgz"]).current_dir(&dir));
    }
    index
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?} failed: the payloads cannot be fetched");
}

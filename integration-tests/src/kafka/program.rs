//! The programs of a broker, as they are run.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::java::JavaProcess;

/// Makes the folders of a broker that keeps its own metadata; `more` goes to the tool.
pub(super) fn format(class_path: &str, properties: &Path, more: impl IntoIterator<Item = String>) {
    let mut command = Command::new("java");
    command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", class_path, "kafka.tools.StorageTool", "format"]);
    command.args(["-t", "bWNnYXRlLXRlc3RzLS0tLQ", "-c"]).arg(properties).args(more);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The broker itself, on what it stored, without waiting.
pub(super) fn broker(class_path: &str, options: &[&str], properties: &Path, log: &Path) -> JavaProcess {
    JavaProcess::start(class_path, options, &["kafka.Kafka", properties.to_str().unwrap()], log)
}

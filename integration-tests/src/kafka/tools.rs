//! Kafka's own tools, in Java, to compare with.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{Kafka, Version};

impl Kafka {
    /// Writes keyed messages as the console producer does. Keys and values have no line breaks and no `|`.
    /// Blocks until all are acknowledged.
    pub fn produce_by_console(&self, topic: &str, messages: &[(&str, &str)]) {
        assert_eq!(self.version, Version::Four, "the tools are of that version");
        let mut command = Command::new("java");
        command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", &self.class_path(), "org.apache.kafka.tools.ConsoleProducer"]);
        command.args(["--bootstrap-server", &self.brokers(), "--topic", topic]);
        command.args(["--property", "parse.key=true", "--property", "key.separator=|"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = String::new();
        for (key, value) in messages {
            writeln!(lines, "{key}|{value}").unwrap();
        }
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

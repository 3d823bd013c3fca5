//! The README's five minutes, as somebody would live through them. Its commands run as they stand,
//! but for ports and the path of the binary, and what it says one sees must be seen.
//!
//! `sh` blocks are run, `text` blocks are what the one before prints (`…` is anything, a line of
//! its own any lines), `jsonc` blocks are files named in their first line. Comments tell what is
//! stopped between them.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::process::{PATIENCE, Process};

enum Step {
    Shell(String),
    Seen(Vec<String>),
    File(String),
    Note(String),
}

fn steps(readme: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        if let Some(note) = line.strip_prefix("<!-- ") {
            steps.push(Step::Note(note.trim_end_matches(" -->").to_owned()));
        }
        let Some(kind) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        steps.push(match kind {
            "sh" => Step::Shell(block.join("\n")),
            "text" => Step::Seen(block.iter().map(|line| (*line).to_owned()).collect()),
            "jsonc" => Step::File(block.join("\n")),
            other => panic!("a block of {other:?} has no meaning here"),
        });
    }
    steps
}

/// The three terminals.
struct Terminals {
    folder: tempfile::TempDir,
    /// The README's ports, and those that stand for them here.
    ports: HashMap<&'static str, String>,
    gateway: Option<Process>,
    receiver: Option<Process>,
    /// Where the last `sh` block ran.
    last: Last,
}

enum Last {
    Gateway,
    Receiver,
    Printed { script: String, output: String },
}

impl Terminals {
    fn new() -> Self {
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listeners = ["9090", "9091", "9099"].map(|port| (port, free()));
        let ports = listeners.iter().map(|(port, at)| (*port, at.local_addr().unwrap().port().to_string())).collect();
        Self { folder: tempfile::tempdir().unwrap(), ports, gateway: None, receiver: None, last: Last::Gateway }
    }

    fn translated(&self, text: &str) -> String {
        self.ports
            .iter()
            .fold(text.to_owned(), |text, (port, here)| text.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{here}")))
    }

    fn shell(&mut self, script: &str) {
        if script == "./test" {
            return;
        }
        let script = self.translated(script);
        let last_line = script.lines().last().unwrap();
        if let Some(arguments) = last_line.strip_prefix("./run") {
            assert!(self.gateway.is_none(), "the gateway runs already");
            let flags = format!("--listen 127.0.0.1:{} --admin 127.0.0.1:{}", self.ports["9090"], self.ports["9091"]);
            let process = self.background(&format!("mqgate standalone {flags} {arguments}"));
            process.stderr_until("\"ready\"");
            (self.gateway, self.last) = (Some(process), Last::Gateway);
        } else if last_line == "mqgate listen" {
            assert!(self.receiver.is_none(), "the receiver runs already");
            let process = self.background(&format!("mqgate listen --port {}", self.ports["9099"]));
            process.stderr_until("Listening");
            (self.receiver, self.last) = (Some(process), Last::Receiver);
        } else {
            let script = self.with_known_pid(&script);
            self.last = Last::Printed { output: self.printed(&script), script };
        }
    }

    /// Other gateways of this machine are none of the README's business.
    fn with_known_pid(&self, script: &str) -> String {
        let gateway = self.gateway.as_ref().map_or(0, Process::id);
        script.replace("$(pgrep -f 'mqgate standalone')", &gateway.to_string())
    }

    fn bash(&self, script: &str) -> Command {
        let binaries = Path::new(env!("CARGO_BIN_EXE_mqgate")).parent().unwrap();
        let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        // The README's own line about PATH must not hide the binary under test.
        let script = script.replace("$PWD/target/release", &binaries.display().to_string());
        command.args(["-euo", "pipefail", "-c", &script]).current_dir(self.folder.path()).env("PATH", path).stdin(Stdio::null());
        command.env("MQGATE_PROXY", format!("127.0.0.1:{}", self.ports["9090"]));
        command.env("MQGATE_ADMIN", format!("127.0.0.1:{}", self.ports["9091"]));
        command
    }

    fn background(&self, command: &str) -> Process {
        Process::start(&mut self.bash(&format!("exec {command}")))
    }

    fn printed(&self, script: &str) -> String {
        let output = self.bash(script).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn seen(&self, expected: &[String]) {
        let mut expected: Vec<String> = expected.iter().map(|line| self.translated(line)).collect();
        match &self.last {
            // What the receiver shows, whoever had it sent.
            _ if expected[0].starts_with('#') => {
                let mut shown = self.receiver.as_ref().unwrap().stdout_until("answered");
                shown.retain(|line| !line.is_empty());
                expected.retain(|line| !line.is_empty());
                assert!(is_like(&shown, &expected), "{shown:#?}\nis not like\n{expected:#?}");
            }
            Last::Printed { script, output } => {
                let started = Instant::now();
                let mut output = output.clone();
                while !is_like(&output.lines().map(str::to_owned).collect::<Vec<_>>(), &expected) {
                    // A look may be repeated until what is said has come about; nothing else may.
                    let look = script.ends_with("mqgate groups") && started.elapsed() < PATIENCE;
                    assert!(look, "{script}:\n{output}\nis not like\n{expected:#?}");
                    output = self.printed(script);
                }
            }
            Last::Gateway | Last::Receiver => panic!("nothing is said to be seen there"),
        }
    }

    fn file(&self, block: &str) {
        let name = block.lines().next().unwrap().trim_start_matches("// ");
        std::fs::write(self.folder.path().join(name), self.translated(block)).unwrap();
    }

    fn note(&mut self, note: &str) {
        match note {
            "stop gateway" => stop(&mut self.gateway),
            "stop receiver" => stop(&mut self.receiver),
            "wait for the kill" => assert!(!self.gateway.take().unwrap().ended().success()),
            other => panic!("{other:?} has no meaning here"),
        }
    }
}

fn stop(process: &mut Option<Process>) {
    let mut process = process.take().expect("it runs");
    process.signal("INT");
    assert!(process.ended().success());
}

/// `…` within a line is anything, a line of its own any lines. Columns may be as wide as they like.
fn is_like(lines: &[String], expected: &[String]) -> bool {
    match (lines, expected) {
        (_, []) => lines.is_empty(),
        (_, [first, rest @ ..]) if first == "…" => (0..=lines.len()).any(|skipped| is_like(&lines[skipped..], rest)),
        ([line, lines @ ..], [first, rest @ ..]) => line_is_like(&squeezed(line), &squeezed(first)) && is_like(lines, rest),
        ([], _) => false,
    }
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn line_is_like(line: &str, expected: &str) -> bool {
    match expected.split_once('…') {
        None => line == expected,
        Some((start, rest)) => line.strip_prefix(start).is_some_and(|line| {
            let ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
            ends.into_iter().any(|at| line_is_like(&line[at..], rest))
        }),
    }
}

#[test]
fn the_five_minutes_are_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let mut terminals = Terminals::new();
    for step in steps(&readme) {
        match step {
            Step::Shell(script) => terminals.shell(&script),
            Step::Seen(lines) => terminals.seen(&lines),
            Step::File(block) => terminals.file(&block),
            Step::Note(note) => terminals.note(&note),
        }
    }
}

#[test]
fn dots_stand_for_anything_and_nothing_else_does() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(is_like(&lines("a 1\nb\nc\nd"), &lines("a …\n…\nd")));
    assert!(is_like(&lines("a  1"), &lines("a 1")));
    assert!(!is_like(&lines("a 1\nb"), &lines("a 2\nb")));
    assert!(!is_like(&lines("a\nb"), &lines("a")));
}

//! A running mqgate, whose output is read as it comes, and which ends with the test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// For anything that should take milliseconds; a busy machine is no failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn mqgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mqgate"));
    command.stdin(Stdio::null());
    command
}

pub(crate) struct Process {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::with_stdout(command, Stdio::piped())
    }

    pub(crate) fn with_stdout(command: &mut Command, stdout: Stdio) -> Self {
        let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().map_or_else(|| channel().1, lines);
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// The lines of stdout up to the first that contains `end`.
    pub(crate) fn stdout_until(&self, end: &str) -> Vec<String> {
        until(&self.stdout, end)
    }

    pub(crate) fn stderr_until(&self, end: &str) -> Vec<String> {
        until(&self.stderr, end)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it has not ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    receiver
}

fn until(lines: &Receiver<String>, end: &str) -> Vec<String> {
    let (started, mut seen) = (Instant::now(), Vec::new());
    loop {
        match lines.recv_timeout(PATIENCE.saturating_sub(started.elapsed())) {
            Ok(line) => {
                let last = line.contains(end);
                seen.push(line);
                if last {
                    return seen;
                }
            }
            Err(RecvTimeoutError::Timeout) => panic!("no line with {end:?} within {PATIENCE:?} after {seen:#?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("it ended without a line with {end:?} after {seen:#?}"),
        }
    }
}

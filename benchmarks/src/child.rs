//! This program once more, in a part of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::Context;

/// Or another program. Dropped, it is killed, by its process id.
pub(crate) struct Own {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Own {
    pub(crate) fn start(words: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words);
        Self::run(command).context("starting this program once more")
    }

    pub(crate) fn run(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let said = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Self { child, said })
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        anyhow::ensure!(line.ends_with('\n'), "the part of this program has ended");
        line.pop();
        Ok(line)
    }

    /// The same, while other tasks go on.
    pub(crate) async fn next_line(mut self) -> anyhow::Result<(String, Self)> {
        tokio::task::spawn_blocking(move || self.line().map(|line| (line, self))).await?
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids are small")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A whole gateway on a folder and ports of its own, and the commands that speak to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Process, mqgate};

pub(crate) struct Gateway {
    pub(crate) process: Process,
    pub(crate) listen: String,
    pub(crate) admin: String,
    folder: TempDir,
}

impl Gateway {
    /// With what its log says about the ports that were picked.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = mqgate();
        command.args(["standalone", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir"]);
        let process = Process::start(command.arg(folder.path().join("data")).args(arguments));
        let ready: Value = serde_json::from_str(process.stderr_until("\"ready\"").last().unwrap()).unwrap();
        let address = |name: &str| ready[name].as_str().unwrap().to_owned();
        Self { listen: address("listen"), admin: address("admin"), process, folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A command of mqgate that speaks to this gateway.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = mqgate();
        command.args(arguments).env("MQGATE_PROXY", &self.listen).env("MQGATE_ADMIN", &self.admin);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        Said::by(&mut self.command(arguments))
    }
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn by(command: &mut Command) -> Self {
        Self::from(&command.stdin(Stdio::null()).output().unwrap())
    }

    pub(crate) fn from(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

//! One `mqgate`, whole or as proxy or pusher, on a folder of its own, that can be killed, stopped and
//! started again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use self::setup::{Role, Setup, group};

mod admin;
mod process;
mod served;
mod setup;
mod watch;

/// Dropped, it is killed, by its process id.
pub struct Gateway {
    /// Where producers POST; nobody listens there if it is a pusher.
    pub api: SocketAddr,
    pub admin: SocketAddr,
    dir: TempDir,
    setup: Setup,
    child: Option<Child>,
    http: reqwest::Client,
}

impl Gateway {
    /// With its file written, and not started yet.
    pub(crate) fn new(setup: Setup) -> Self {
        crate::producer::install_tls_provider();
        let (api, admin) = (crate::ports::free(), crate::ports::free());
        let dir = tempfile::tempdir().unwrap();
        let mut gateway = Self { api, admin, dir, setup, child: None, http: reqwest::Client::new() };
        gateway.configure(|_| {});
        gateway
    }

    /// Changes the configuration file for the next start, or reload.
    pub fn configure(&mut self, change: impl FnOnce(&mut Setup)) {
        change(&mut self.setup);
        std::fs::write(self.config_file(), self.setup.file_text(self.api, self.admin, &self.data_dir())).unwrap();
    }

    pub fn config_file(&self) -> PathBuf {
        self.dir.path().join("mqgate.json")
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn data_dir(&self) -> PathBuf {
        self.setup.data_dir.clone().unwrap_or_else(|| self.dir.path().join("data"))
    }

    /// Starts it (again) and waits until it is ready.
    pub async fn restart(&mut self) {
        self.spawn();
        self.until_ready().await;
    }

    pub async fn until_ready(&mut self) {
        let started = Instant::now();
        while !self.is_ready().await {
            if let Some(status) = self.child.as_mut().and_then(|c| c.try_wait().unwrap()) {
                panic!("mqgate ended with {status} at its start:\n{}", self.log());
            }
            assert!(started.elapsed() < Duration::from_secs(20), "mqgate is not ready after 20 s:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts it without waiting.
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = std::fs::File::options().create(true).append(true).open(self.log_file()).unwrap();
        let mut words = self.setup.wrapper.clone();
        words.push(crate::binary::mqgate().to_str().unwrap().to_owned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args([self.setup.role.command(), "-c"]).arg(self.config_file());
        command.args(self.setup.all_flags(self.api, self.admin));
        command.envs(self.setup.environment.iter().cloned()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    pub fn topic_url(&self, topic: &str) -> String {
        format!("http://{}/topics/{topic}", self.api)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("--- the last lines of the log of mqgate {} ---", self.setup.role.command());
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

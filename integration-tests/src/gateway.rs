//! One `mqgate standalone` on a data folder of its own, that can be killed, stopped and started again.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::wait;

mod served;
mod watch;

/// What a gateway is started with.
#[derive(Debug, Default, Clone)]
pub struct Setup {
    pub groups: Vec<Value>,
    /// Fields of the file's `proxy`, `pusher` and `queue.embedded` sections.
    pub proxy: Map<String, Value>,
    pub pusher: Map<String, Value>,
    pub embedded: Map<String, Value>,
    pub environment: Vec<(String, String)>,
    /// Command put before the binary, such as one that mounts a small disk.
    pub wrapper: Vec<String>,
    pub data_dir: Option<PathBuf>,
}

impl Setup {
    pub fn groups(groups: impl IntoIterator<Item = Value>) -> Self {
        Self { groups: groups.into_iter().collect(), ..Self::default() }
    }

    #[must_use]
    pub fn embedded(mut self, name: &str, value: Value) -> Self {
        self.embedded.insert(name.into(), value);
        self
    }

    #[must_use]
    pub fn proxy(mut self, name: &str, value: Value) -> Self {
        self.proxy.insert(name.into(), value);
        self
    }

    #[must_use]
    pub fn pusher(mut self, name: &str, value: Value) -> Self {
        self.pusher.insert(name.into(), value);
        self
    }

    pub async fn start(self) -> Gateway {
        Gateway::start(self).await
    }
}

/// A group named `name` that pushes `topic` to `url`, from the oldest, with further fields.
pub fn group(name: &str, topic: &str, url: &str, more: &Value) -> Value {
    let mut group = json!({"group": name, "topics": [topic], "url": url, "initial_from_oldest": true});
    let fields = group.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    group
}

/// Dropped, it is killed, by its process id.
pub struct Gateway {
    pub api: SocketAddr,
    pub admin: SocketAddr,
    dir: TempDir,
    setup: Setup,
    child: Option<Child>,
    http: reqwest::Client,
}

impl Gateway {
    async fn start(setup: Setup) -> Self {
        crate::producer::install_tls_provider();
        let (api, admin) = (crate::ports::free(), crate::ports::free());
        let dir = tempfile::tempdir().unwrap();
        let mut gateway = Self { api, admin, dir, setup, child: None, http: reqwest::Client::new() };
        gateway.configure(|_| {});
        gateway.restart().await;
        gateway
    }

    /// Changes the configuration file for the next start.
    pub fn configure(&mut self, change: impl FnOnce(&mut Setup)) {
        change(&mut self.setup);
        let setup = &self.setup;
        let (mut proxy, mut pusher, mut embedded) = (setup.proxy.clone(), setup.pusher.clone(), setup.embedded.clone());
        proxy.entry("listen").or_insert_with(|| self.api.to_string().into());
        pusher.entry("admin").or_insert_with(|| self.admin.to_string().into());
        let data = setup.data_dir.clone().unwrap_or_else(|| self.dir.path().join("data"));
        embedded.insert("dir".into(), data.to_str().unwrap().into());
        let coordinator = json!({"embedded": {"dir": data}});
        let file = json!({"queue": {"embedded": embedded}, "coordinator": coordinator, "proxy": proxy, "pusher": pusher, "consumer_groups": setup.groups});
        std::fs::write(self.config_file(), serde_json::to_string_pretty(&file).unwrap()).unwrap();
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
        command.args(&words[1..]).args(["standalone", "-c"]).arg(self.config_file());
        command.envs(self.setup.environment.iter().cloned()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    async fn is_ready(&self) -> bool {
        let answer = self.http.get(format!("http://{}/readyz", self.admin)).timeout(Duration::from_secs(2)).send().await;
        answer.is_ok_and(|a| a.status() == 200)
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("mqgate.log")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("it runs"))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "it had ended before with {status}:\n{}", self.log());
    }

    /// SIGTERM, and the exit that follows.
    pub async fn terminate(&mut self, within: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        self.exit(within).await
    }

    pub async fn exit(&mut self, within: Duration) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.as_mut().expect("it runs").try_wait().unwrap() {
                self.child = None;
                return status;
            }
            assert!(started.elapsed() < within, "mqgate has not ended within {within:?}:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|c| c.try_wait().unwrap().is_none())
    }

    pub fn topic_url(&self, topic: &str) -> String {
        format!("http://{}/topics/{topic}", self.api)
    }

    pub async fn admin_get(&self, path: &str) -> Value {
        let answer = self.http.get(format!("http://{}{path}", self.admin)).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}: {text}"))
    }

    pub async fn group(&self, name: &str) -> Value {
        self.admin_get(&format!("/v1/groups/{name}")).await
    }

    pub async fn create_topic(&self, topic: &str, partitions: u32) {
        let url = format!("http://{}/v1/topics/{topic}", self.admin);
        let answer = self.http.put(url).json(&json!({"partitions": partitions})).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    pub async fn metrics(&self) -> String {
        self.http.get(format!("http://{}/metrics", self.admin)).send().await.unwrap().text().await.unwrap()
    }

    /// The sum of all series of that name that have all these labels.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.metrics().await;
        let has = |line: &str| labels.iter().all(|(k, v)| line.contains(&format!("{k}=\"{v}\"")));
        let series = text.lines().filter(|l| l.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && has(l));
        series.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Waits until every partition of the group has its cursor at the end: lag 0.
    pub async fn until_caught_up(&self, group: &str, within: Duration) {
        wait::until(&format!("lag 0 of {group}"), within, || async {
            let answer = self.group(group).await;
            let partitions = answer["partitions"].as_array().unwrap().clone();
            let done = !partitions.is_empty() && partitions.iter().all(|p| p["lag"] == 0 && p["cursor"] == p["end"]);
            done.then_some(())
        })
        .await;
    }

    /// Resident memory of the process in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.pid().as_raw_nonzero())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
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
            eprintln!("--- the last lines of mqgate's log ---");
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

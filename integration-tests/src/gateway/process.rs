//! Signals, the end, and what the process costs.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Gateway;

impl Gateway {
    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("it runs"))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// SIGSTOP; returns once every thread stands still.
    pub fn freeze(&self) {
        crate::freeze::freeze(self.pid());
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Reads its file again, sooner or later.
    pub fn reload(&self) {
        self.signal(Signal::HUP);
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

    pub(super) fn log_file(&self) -> PathBuf {
        self.dir.path().join("mqgate.log")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Each line of the log, which is JSON wherever it is no terminal.
    pub fn log_lines(&self) -> Vec<Value> {
        self.log().lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("no JSON in the log: {e}: {l}"))).collect()
    }

    fn proc_file(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.pid().as_raw_nonzero()).into()
    }

    /// Resident memory of the process in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string(self.proc_file("statm")).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
    }

    pub fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc_file("fd")).unwrap().count()
    }

    /// Processor time used so far, of user and system together.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(self.proc_file("stat")).unwrap();
        let after_name = stat.rsplit_once(')').unwrap().1;
        let ticks: u64 = after_name.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum();
        Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }
}

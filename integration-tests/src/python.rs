//! Receivers as people write them: a Flask handler, and a script that reads `CONTENT_LENGTH` bytes.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const FLASK: &str = "flask==3.1.3";

/// Dropped, it is ended.
pub struct PythonReceiver {
    pub addr: SocketAddr,
    child: Child,
    log: PathBuf,
}

impl PythonReceiver {
    /// Runs `python/NAME.py`, which prints its port and then logs one line a request to `log`.
    pub fn start(name: &str, log: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("python/{name}.py"));
        let mut command = Command::new("python3");
        command.arg(script).arg(log).env("PYTHONPATH", flask()).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().unwrap_or_else(|_| panic!("{name}.py did not start"));
        Self { addr: SocketAddr::from(([127, 0, 0, 1], port)), child, log: log.to_owned() }
    }

    pub fn url(&self) -> String {
        format!("http://{}/callback", self.addr)
    }

    /// One object for each request so far.
    pub fn seen(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        // The last line may be half written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Drop for PythonReceiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where Flask lies, installed once per checkout.
fn flask() -> PathBuf {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let dir = crate::binary::cache().join("flask-3.1.3");
    ONCE.call_once(|| {
        if !dir.join("flask/__init__.py").exists() {
            let target = dir.to_str().unwrap();
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--target", target, FLASK]);
            assert!(pip.stdout(Stdio::null()).status().unwrap().success(), "Flask cannot be fetched: {pip:?}");
        }
    });
    dir
}

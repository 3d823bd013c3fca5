//! Servers that are Java programs: their jars, fetched once, and their processes.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::binary::{cache, workspace};

/// The class path of what `java/<pom>` names, fetched by Maven at first use and kept under the file's content.
pub fn class_path(pom: &str) -> String {
    let pom = workspace().join("integration-tests/java").join(pom);
    let jars = cache().join(format!("jars-{}", digest(&pom)));
    // Tests that start at once, in however many processes, fetch once.
    let lock = File::create(cache().join("jars.lock")).unwrap();
    lock.lock().unwrap();
    if !jars.is_dir() {
        fetch(&pom, &jars);
    }
    format!("{}/*", jars.display())
}

fn digest(pom: &Path) -> String {
    use md5::{Digest, Md5};
    let hash = Md5::digest(std::fs::read(pom).unwrap());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whole or not at all: an interrupted fetch leaves nothing that looks fetched.
fn fetch(pom: &Path, jars: &Path) {
    let partial = tempfile::tempdir_in(cache()).unwrap();
    let mut command = Command::new("mvn");
    command.arg("-q").arg("-f").arg(pom).arg("dependency:copy-dependencies").arg(format!("-DoutputDirectory={}", partial.path().display()));
    let status = command.stdin(Stdio::null()).status().expect("Maven (mvn) is needed to fetch the servers of the tests");
    assert!(status.success(), "Maven could not fetch the servers of the tests: {status}");
    std::fs::rename(partial.keep(), jars).unwrap();
}

/// A Java process. Dropped, it is killed, by its process id; after a panic its log is kept and named.
pub struct JavaProcess {
    child: Option<Child>,
    log: PathBuf,
}

impl JavaProcess {
    /// `java <options> -cp <class path> <words>`; what it says is added to the file `log`.
    pub fn start(class_path: &str, options: &[&str], words: &[&str], log: &Path) -> Self {
        let output = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new("java");
        command.args(options).args(["-cp", class_path]).args(words);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let child = command.spawn().expect("Java (java) is needed for the servers of the tests");
        Self { child: Some(child), log: log.to_owned() }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().expect("it runs")), signal).unwrap();
    }

    /// SIGSTOP; returns once every thread stands still.
    pub fn freeze(&self) {
        crate::freeze::freeze(Pid::from_child(self.child.as_ref().expect("it runs")));
    }

    /// SIGKILL, and the end that follows.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for JavaProcess {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let kept = cache().join(format!("failed-{}-{}", std::process::id(), self.log.file_name().unwrap().to_string_lossy()));
            let _ = File::create(&kept).and_then(|mut file| file.write_all(self.log().as_bytes()));
            eprintln!("--- the log of {} is in {}", self.log.display(), kept.display());
        }
    }
}

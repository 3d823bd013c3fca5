//! A disk that is soon full: a `tmpfs` in a mount namespace, held by a process of its own so that
//! it outlives a gateway that is killed and started again.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Dropped, it is gone with everything on it.
pub struct SmallDisk {
    mount: TempDir,
    holder: Child,
}

impl SmallDisk {
    /// Needs root, or a kernel that lets users have namespaces.
    pub fn mount(bytes: u64) -> Self {
        let mount = tempfile::tempdir().unwrap();
        let script = format!("mount -t tmpfs -o size={bytes} none \"$0\" && echo mounted && exec sleep 600");
        let user: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["--map-root-user"] };
        let mut command = Command::new("unshare");
        command.args(user).args(["--mount", "sh", "-c", &script]).arg(mount.path());
        let mut holder = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n", "the small disk cannot be mounted");
        Self { mount, holder }
    }

    /// The words to put before a command that shall see this disk.
    pub fn enter(&self) -> Vec<String> {
        ["nsenter", "--target", &self.holder.id().to_string(), "--mount", "--"].map(str::to_owned).to_vec()
    }

    pub fn dir(&self) -> PathBuf {
        self.mount.path().join("data")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

//! A disk that is soon full: a `tmpfs` in a mount namespace, held by a process of its own so that
//! it outlives a gateway that is killed and started again.

use std::fs::File;
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

    /// The same folder, as those outside of the namespace reach it.
    pub fn dir_from_outside(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.dir().strip_prefix("/").unwrap())
    }

    /// Takes all room but so many bytes, until [`SmallDisk::empty`].
    pub fn fill(&self, leave_bytes: u64) {
        let file = File::create(self.ballast()).unwrap();
        let room = || {
            let stat = rustix::fs::fstatvfs(&file).unwrap();
            (stat.f_bavail * stat.f_frsize).saturating_sub(leave_bytes)
        };
        // Who writes to the disk meanwhile may have taken a part of it.
        while let Err(error) = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, room().max(1)) {
            assert_eq!(error, rustix::io::Errno::NOSPC);
        }
    }

    pub fn empty(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.dir_from_outside().with_file_name("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

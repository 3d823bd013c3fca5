//! Host names of our own: a hosts file that one gateway alone sees, in a mount namespace.

use std::path::{Path, PathBuf};

/// Names that can be given and taken while the gateway runs.
#[derive(Debug, Clone)]
pub struct Names {
    hosts: PathBuf,
    switch: PathBuf,
}

impl Names {
    /// Nothing but this file is asked, so that an unknown name is unknown at once.
    pub fn new(dir: &Path) -> Self {
        let names = Self { hosts: dir.join("hosts"), switch: dir.join("nsswitch.conf") };
        std::fs::write(&names.switch, "hosts: files\n").unwrap();
        names.set(&[]);
        names
    }

    /// The file is changed in place: it stays the one that is mounted.
    pub fn set(&self, entries: &[(&str, &str)]) {
        let lines: String = entries.iter().map(|(address, name)| format!("{address} {name}\n")).collect();
        std::fs::write(&self.hosts, format!("127.0.0.1 localhost\n{lines}")).unwrap();
    }

    /// The words to put before a command that shall see these names.
    /// Needs root, or a kernel that lets users have namespaces.
    pub fn enter(&self) -> Vec<String> {
        let script = "mount --bind \"$0\" /etc/hosts && mount --bind \"$1\" /etc/nsswitch.conf && shift && exec \"$@\"";
        let user: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["--map-root-user"] };
        let mut words: Vec<String> =
            ["unshare"].iter().chain(user).chain(&["--mount", "sh", "-c", script]).map(|w| (*w).to_owned()).collect();
        words.extend([&self.hosts, &self.switch].map(|path| path.to_str().unwrap().to_owned()));
        words
    }
}

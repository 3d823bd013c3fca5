//! A disk whose syncs are slow or fail: a library preloaded into the gateway.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Compiled once; the path of the shared object.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile("slow_sync"))
}

/// Makes `shim/<name>.c` a shared object, which the caller keeps: it must not be made anew while a gateway starts.
pub(crate) fn compile(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("shim/{name}.c"));
    let object = crate::binary::cache().join(format!("{name}.so"));
    let status = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&object).arg(source).args(["-ldl"]).status().unwrap();
    assert!(status.success(), "the shim {name} does not compile");
    object
}

/// Tells the syncs of one gateway what to do.
#[derive(Debug, Clone)]
pub struct Syncs {
    orders: PathBuf,
    log: PathBuf,
}

impl Syncs {
    pub fn new(dir: &Path) -> Self {
        Self { orders: dir.join("sync-orders"), log: dir.join("sync-log") }
    }

    /// The environment of a gateway that obeys.
    pub fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec![
            ("LD_PRELOAD".into(), text(library())),
            ("MQGATE_SYNC_FILE".into(), text(&self.orders)),
            ("MQGATE_SYNC_LOG".into(), text(&self.log)),
        ]
    }

    pub fn delay(&self, delay: Duration) {
        std::fs::write(&self.orders, delay.as_millis().to_string()).unwrap();
    }

    pub fn fail(&self) {
        std::fs::write(&self.orders, "fail").unwrap();
    }

    pub fn obey_the_disk(&self) {
        std::fs::write(&self.orders, "").unwrap();
    }

    /// How many syncs have returned so far.
    pub fn count(&self) -> usize {
        std::fs::read_to_string(&self.log).map_or(0, |log| log.lines().count())
    }

    /// How many bytes of the file of that name a sync has passed: what a power cut now cannot take. `None`: no sync of it
    /// has returned.
    pub fn synced_bytes(&self, name: &str) -> Option<u64> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let of_line = |line: &str| {
            let mut words = line.splitn(3, ' ').skip(1);
            let bytes: u64 = words.next()?.parse().ok()?;
            Path::new(words.next()?).file_name().is_some_and(|file| file == name).then_some(bytes)
        };
        log.lines().filter_map(of_line).max()
    }
}

//! A wall clock that is moved under a running gateway: a library preloaded into it. The machine's own clock stays.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::shim;

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| shim::compile("jumping_clock"))
}

/// Tells one gateway what time it is.
#[derive(Debug)]
pub struct JumpingClock {
    path: PathBuf,
    file: std::fs::File,
}

impl JumpingClock {
    /// Right, until it is told to be off.
    pub fn new(dir: &Path) -> Self {
        let path = dir.join("clock-offset");
        std::fs::write(&path, 0_i64.to_ne_bytes()).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        Self { path, file }
    }

    /// The environment of a gateway that believes it, beside other preloaded libraries.
    #[must_use]
    pub fn added_to(&self, mut environment: Vec<(String, String)>) -> Vec<(String, String)> {
        let library = library().to_str().unwrap();
        match environment.iter_mut().find(|(name, _)| name == "LD_PRELOAD") {
            Some((_, others)) => *others = format!("{others}:{library}"),
            None => environment.push(("LD_PRELOAD".into(), library.into())),
        }
        environment.push(("MQGATE_CLOCK_FILE".into(), self.path.to_str().unwrap().into()));
        environment
    }

    /// From now on it is so many seconds ahead of the machine's, or behind it.
    pub fn set_off_by(&self, seconds: i64) {
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}

//! The release binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// `$MQGATE_BIN`, else `target/release/mqgate`, built first if need be.
pub fn mqgate() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| std::env::var_os("MQGATE_BIN").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let root = workspace();
    let status = Command::new(env!("CARGO")).args(["build", "--release", "-p", "mqgate"]).current_dir(root).status().unwrap();
    assert!(status.success(), "the release binary does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("release/mqgate")
}

pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Where fetched and compiled test material is kept between runs.
pub fn cache() -> PathBuf {
    let dir = workspace().join("target/test-material");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

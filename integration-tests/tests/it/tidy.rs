//! The boundaries that no compiler checks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use integration_tests::binary::workspace;
use serde_json::Value;

/// Every Rust source outside of tests: path from the root, text without comment lines and without
/// the inline tests at its end.
fn sources() -> Vec<(String, String)> {
    let crates = ["engine", "common", "proxy", "pusher", "mqgate"];
    let files = crates.iter().flat_map(|name| rust_files(&workspace().join(name).join("src")));
    files.map(|path| (relative(&path), code_of(&std::fs::read_to_string(&path).unwrap()))).filter(|(path, _)| !is_test(path)).collect()
}

fn is_test(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("/tests/")
}

fn relative(path: &Path) -> String {
    path.strip_prefix(workspace()).unwrap().to_str().unwrap().to_owned()
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|p| p.is_dir());
    let mut all: Vec<PathBuf> = files.into_iter().filter(|p| p.extension().is_some_and(|e| e == "rs")).collect();
    all.extend(folders.iter().flat_map(|f| rust_files(f)));
    all
}

fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    code.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Fails with every place that names `what` although it is in none of `allowed`.
#[track_caller]
fn only_in(what: &str, allowed: &[&str]) {
    let named = sources().into_iter().filter(|(_, code)| code.contains(what)).map(|(path, _)| path);
    let wrong: Vec<String> = named.filter(|path| !allowed.iter().any(|a| path.starts_with(a))).collect();
    assert!(wrong.is_empty(), "{what} is for {allowed:?} alone, but is named in {wrong:?}");
}

#[test]
fn each_outside_library_is_named_in_one_place() {
    only_in("fjall::", &["common/src/store"]);
    only_in("client::legacy", &["pusher/src/delivery"]);
    only_in("rdkafka", &["common/src/queue/kafka"]);
    only_in("zookeeper_client", &["common/src/coordinator/zookeeper"]);
    only_in("clap::", &["mqgate/src"]);
    only_in("anyhow::", &["mqgate/src"]);
}

#[test]
fn the_engine_knows_no_http_and_no_queue() {
    for (path, code) in sources().into_iter().filter(|(path, _)| path.starts_with("engine/")) {
        for word in ["http", "kafka", "zookeeper", "common::", "fjall"] {
            assert!(!code.to_lowercase().contains(word), "{path} names {word}");
        }
    }
}

#[test]
fn clocks_are_read_at_the_rim() {
    only_in("SystemTime::now", &["engine/src/ports.rs", "common/src/clock.rs"]);
    for (path, code) in sources().into_iter().filter(|(path, _)| path.starts_with("engine/src/core")) {
        for word in ["Instant::now", "async ", ".await", "tokio::spawn"] {
            assert!(!code.contains(word), "{path}, the pure core, names {word}");
        }
    }
}

fn metadata() -> BTreeMap<String, Vec<Value>> {
    let args = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
    let output = Command::new(env!("CARGO")).args(args).current_dir(workspace()).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let package = |p: &Value| (p["name"].as_str().unwrap().to_owned(), p["dependencies"].as_array().unwrap().clone());
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

#[test]
fn crates_depend_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("engine", &[] as &[&str]),
        ("common", &[]),
        ("proxy", &["common"]),
        ("pusher", &["common", "engine"]),
        ("mqgate", &["common", "proxy", "pusher"]),
        ("fuzz", &[]),
        ("integration-tests", &[]),
        ("benchmarks", &["common", "integration-tests"]),
    ]);
    let packages = metadata();
    assert_eq!(packages.len(), allowed.len(), "a new crate has its line here");
    for (name, dependencies) in &packages {
        let ours =
            dependencies.iter().filter(|d| d["kind"].is_null()).filter_map(|d| d["name"].as_str()).filter(|d| packages.contains_key(*d));
        let wrong: Vec<&str> = ours.filter(|d| !allowed[name.as_str()].contains(d)).collect();
        assert!(wrong.is_empty(), "{name} must not depend on {wrong:?}");
    }
}

#[test]
fn versions_stand_once_in_the_root_manifest() {
    for name in metadata().keys() {
        let manifest = std::fs::read_to_string(workspace().join(name).join("Cargo.toml")).unwrap();
        let mut in_dependencies = false;
        for line in manifest.lines() {
            if line.starts_with('[') {
                in_dependencies = line.contains("dependencies");
            } else if in_dependencies && !line.trim().is_empty() && !line.starts_with('#') {
                assert!(line.contains("workspace = true"), "{name}/Cargo.toml: {line}");
            }
        }
    }
}

fn tracked() -> Vec<(String, String)> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(workspace()).output().unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    let read = |name: &str| std::fs::read_to_string(workspace().join(name)).ok().map(|text| (name.to_owned(), text));
    names.split('\0').filter(|n| !n.is_empty()).filter_map(read).collect()
}

#[test]
fn nothing_unfinished_and_no_machine_is_in_the_tree() {
    let here = "integration-tests/tests/it/tidy.rs";
    let marks = ["todo!(", "unimplemented!(", "TODO", "FIXME", "#[ignore", "fn test_"];
    let machine = ["/work/", "/root/", "/home/"];
    for (name, text) in tracked().into_iter().filter(|(name, _)| name != here && name != "Cargo.lock") {
        let banned = marks.iter().filter(|_| name.ends_with(".rs")).chain(&machine);
        for word in banned {
            let at = text.lines().position(|line| line.contains(word));
            assert!(at.is_none(), "{name}:{}: {word}", at.unwrap() + 1);
        }
    }
}

#[test]
fn the_main_documents_exist_and_their_links_lead_somewhere() {
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"] {
        assert!(workspace().join(name).is_file(), "{name} is missing");
    }
    for (name, text) in tracked().into_iter().filter(|(name, _)| name.ends_with(".md")) {
        let folder = workspace().join(&name).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|l| !l.contains(':') && !l.starts_with('#')) {
            let path = link.split('#').next().unwrap();
            assert!(folder.join(path).exists(), "{name}: {link} leads nowhere");
        }
    }
}

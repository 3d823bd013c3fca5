//! `./run` and `./test` on machines where something is missing.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a script of the root with a PATH that has these commands alone, from another folder.
fn run(script: &str, commands: &[&str]) -> (Output, String) {
    let folder = tempfile::tempdir().unwrap();
    for name in commands {
        // What it would do does not matter: the script must not get so far.
        let real = ["/usr/bin", "/bin"].map(|bin| Path::new(bin).join(name)).into_iter().find(|path| path.exists());
        symlink(real.unwrap_or_else(|| "/bin/false".into()), folder.path().join(name)).unwrap();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new(root.join(script));
    command.env_clear().env("PATH", folder.path()).env("HOME", folder.path()).current_dir("/");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (output, said)
}

#[test]
fn a_missing_toolchain_is_named_with_the_line_that_installs_it() {
    for script in ["run", "test"] {
        let (output, said) = run(script, &["bash", "cc", "npm", "curl"]);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("The Rust toolchain (cargo) is missing") && said.contains("https://sh.rustup.rs | sh"), "{said}");
        assert!(!said.contains("(cc) is missing"), "{said}");
    }
}

#[test]
fn a_missing_c_compiler_is_named_with_the_line_that_installs_it() {
    for script in ["run", "test"] {
        let (output, said) = run(script, &["bash", "cargo", "npm", "curl", "apt-get"]);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("A C compiler (cc) is missing") && said.contains("apt-get install -y build-essential"), "{said}");
        assert!(!said.contains("(cargo) is missing"), "{said}");
    }
}

#[test]
fn everything_that_is_missing_is_said_at_once() {
    let (_, said) = run("test", &["bash"]);
    for name in ["cargo", "cc", "npm", "curl"] {
        assert!(said.contains(&format!("({name}) is missing")), "{name}: {said}");
    }
}

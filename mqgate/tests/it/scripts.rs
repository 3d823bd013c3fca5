//! `./run` and `./test`: on machines where something is missing, and around a cargo that only
//! plays its part.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::gateway::Said;

/// A PATH that has these commands alone.
struct Machine(TempDir);

impl Machine {
    fn with(commands: &[&str]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for name in commands {
            // What it would do does not matter, but for bash: nothing gets so far as to run it.
            let real = ["/usr/bin", "/bin"].map(|bin| Path::new(bin).join(name)).into_iter().find(|path| path.exists());
            symlink(real.unwrap_or_else(|| "/bin/false".into()), machine.0.path().join(name)).unwrap();
        }
        machine
    }

    /// Has everything, and a cargo that does as `script` says.
    fn with_cargo(script: &str) -> Self {
        let machine = Self::with(&["bash", "cc", "make", "perl", "java", "mvn", "npm", "curl", "mkdir", "chmod", "cat"]);
        let cargo = machine.0.path().join("cargo");
        std::fs::write(&cargo, format!("#!/usr/bin/env bash\n{script}\n")).unwrap();
        std::fs::set_permissions(&cargo, Permissions::from_mode(0o755)).unwrap();
        machine
    }

    /// Runs a script of the root, from another folder.
    fn run(&self, script: &str, arguments: &[&str]) -> Said {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut command = Command::new(root.join(script));
        command.args(arguments).env_clear().env("PATH", self.0.path()).env("HOME", self.0.path());
        Said::by(command.env("CARGO_TARGET_DIR", self.0.path().join("target")).current_dir("/"))
    }
}

#[test]
fn a_missing_toolchain_is_named_with_the_line_that_installs_it() {
    let machine = Machine::with(&["bash", "cc", "npm", "curl"]);
    for script in ["run", "test"] {
        let said = machine.run(script, &[]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains("The Rust toolchain (cargo) is missing") && said.err.contains("https://sh.rustup.rs | sh"), "{said:?}");
        assert!(!said.err.contains("(cc) is missing"), "{said:?}");
    }
}

#[test]
fn a_missing_c_compiler_is_named_with_the_line_that_installs_it() {
    let machine = Machine::with(&["bash", "cargo", "npm", "curl", "apt-get"]);
    for script in ["run", "test"] {
        let said = machine.run(script, &[]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains("A C compiler (cc) is missing") && said.err.contains("apt-get install -y build-essential"), "{said:?}");
        assert!(!said.err.contains("(cargo) is missing"), "{said:?}");
    }
}

#[test]
fn everything_that_is_missing_is_said_at_once() {
    let said = Machine::with(&["bash"]).run("test", &[]);
    for name in ["cargo", "cc", "make", "perl", "java", "mvn", "npm", "curl"] {
        assert!(said.err.contains(&format!("({name}) is missing")), "{name}: {said:?}");
    }
}

#[test]
fn run_starts_what_it_built_where_it_was_called() {
    let machine = Machine::with_cargo(
        r#"mkdir -p "$CARGO_TARGET_DIR/release"
           printf '#!/usr/bin/env bash\necho "$PWD: $*"\n' > "$CARGO_TARGET_DIR/release/mqgate"
           chmod +x "$CARGO_TARGET_DIR/release/mqgate""#,
    );
    let said = machine.run("run", &["-c", "my file.json"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "/: standalone -c my file.json\n"), "{said:?}");
}

#[test]
fn run_ends_with_the_failure_of_the_build() {
    let said = Machine::with_cargo("exit 101").run("run", &[]);
    assert_eq!(said.code, Some(101), "{said:?}");
}

/// What `./test` makes of the output and exit code of `cargo test`.
fn tested(output: &str, code: i32) -> (Option<i32>, String) {
    let said = Machine::with_cargo(&format!("[[ $1 == build ]] && exit\ncat <<'E'\n{output}\nE\nexit {code}")).run("test", &[]);
    (said.code, said.out.lines().last().unwrap_or_default().to_owned())
}

const BINARY: &str = "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
const FAILED: &str = "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";

#[test]
fn tests_are_summed_over_all_binaries() {
    assert_eq!(tested(&format!("{BINARY}\n{BINARY}"), 0), (Some(0), "14 passed, 0 failed".into()));
    assert_eq!(tested(&format!("{BINARY}\n{FAILED}"), 101), (Some(1), "9 passed, 3 failed".into()));
}

#[test]
fn a_binary_that_crashes_or_does_not_build_is_a_failure() {
    assert_eq!(tested(BINARY, 101), (Some(1), "7 passed, 1 failed".into()));
    assert_eq!(tested("", 101), (Some(1), "0 passed, 1 failed".into()));
}

#[test]
fn no_test_at_all_is_no_success() {
    assert_eq!(tested("", 0), (Some(1), "0 passed, 0 failed".into()));
}

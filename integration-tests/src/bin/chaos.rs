//! The chaos run as a command. `MQGATE_BIN` names the binary under test; without it the release build is used.
//!
//!     cargo run --release -p integration-tests --bin chaos -- --seed 7 --minutes 30

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use integration_tests::chaos::{Chaos, RECEIVER, receive};

fn main() -> ExitCode {
    let (mut seed, mut minutes, mut logs) = (1, 3.0, None);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    // A part of a run that this program started.
    if let [RECEIVER, addr, ledger] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        let [addr, ledger] = [addr, ledger].map(|addr| addr.parse().expect("an address is given"));
        runtime.block_on(receive(addr, ledger));
        return ExitCode::SUCCESS;
    }
    for pair in words.chunks(2) {
        match pair {
            [name, value] if name == "--seed" => seed = value.parse().expect("--seed takes a number"),
            [name, value] if name == "--minutes" => minutes = value.parse().expect("--minutes takes a number"),
            [name, value] if name == "--logs" => logs = Some(PathBuf::from(value)),
            _ => {
                eprintln!("usage: chaos [--seed N] [--minutes M] [--logs FOLDER]");
                return ExitCode::from(2);
            }
        }
    }
    let program = std::env::current_exe().expect("this program is a file");
    let chaos = Chaos { program, seed, duration: Duration::from_secs_f64(minutes * 60.0), logs };
    let report = runtime.block_on(chaos.play(|line| eprintln!("{line}")));
    println!("{report}");
    ExitCode::from(u8::from(!report.keeps_the_guarantee() || report.late() > 0 || !report.repeats_beyond_bound().is_empty()))
}

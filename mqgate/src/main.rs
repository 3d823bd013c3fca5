//! The one binary: its command line, and the composition of the parts behind `standalone`.

use std::process::ExitCode;

mod admin;
mod check;
mod cli;
mod completions;
mod failure;
mod groups;
mod http;
mod later;
mod listen;
mod output;
mod send;
mod standalone;
mod topics;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = cli::parse();
    match cli::run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

//! `mqgate completions`: what a shell needs to complete a command line.

use std::io::Write;

use clap_complete::Shell;

use crate::failure::Failure;

/// Print what makes a shell complete mqgate's commands and flags
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate completions bash > ~/.local/share/bash-completion/completions/mqgate
  mqgate completions fish > ~/.config/fish/completions/mqgate.fish")]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: &Args, command: &mut clap::Command) -> Result<(), Failure> {
    // Rendered first: clap_complete panics when its writer fails, as a closed pipe does.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "mqgate", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

//! Commands that the contract names and this version does not have: refused by name.

use crate::failure::Failure;

/// Takes whatever is given, so that the refusal, and not a complaint about a flag, is the answer.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _ignored: Vec<std::ffi::OsString>,
}

pub(crate) fn not_yet(command: &str, instead: &str) -> Failure {
    Failure::usage(format_args!("this version does not have `mqgate {command}` yet; {instead}"))
}

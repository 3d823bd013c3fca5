//! Commands that the contract names and this version does not have: refused by name.

use crate::failure::Failure;

/// Takes whatever is given, so that the refusal, and not a complaint about a flag, is the answer.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _ignored: Vec<std::ffi::OsString>,
}

pub(crate) fn needs_kafka(command: &str) -> Failure {
    Failure::usage(format_args!("`mqgate {command}` needs the Kafka queue, which this version does not have yet; use `mqgate standalone`"))
}

/// `standalone` runs without either.
pub(crate) fn flag_needs(flag: &str, what: &str) -> Failure {
    Failure::usage(format_args!(
        "{flag} needs {what}, which this version does not have yet; without it, messages and cursors are kept in --data-dir"
    ))
}

pub(crate) fn not_yet(command: &str, instead: &str) -> Failure {
    Failure::usage(format_args!("this version does not have `mqgate {command}` yet; {instead}"))
}

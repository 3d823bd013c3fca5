//! Every command with its arguments, and what runs it.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{CommandFactory, Parser, Subcommand};

use crate::failure::Failure;
use crate::{check, completions, control, cursor, groups, listen, send, serving, topics};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// An HTTP gateway in front of a message queue: POST a message in, get it pushed out, nothing lost.
#[derive(Parser, Debug)]
#[command(name = "mqgate", version, styles = STYLES, max_term_width = 110, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  mqgate standalone --push orders=http://127.0.0.1:9099/hook   a durable gateway on this machine
  mqgate listen                                                a receiver that shows what it is sent
  echo hello | mqgate send orders --key customer-7             a message through the gateway
  mqgate groups                                                how far every group has come

Exit codes: 0 ok, 1 failed, 2 bad usage or configuration.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Standalone(serving::StandaloneArgs),
    Proxy(serving::ProxyArgs),
    Pusher(serving::PusherArgs),
    Check(check::Args),
    Send(send::Args),
    Listen(listen::Args),
    Topics(topics::Args),
    Groups(groups::Args),
    Cursor(cursor::Args),
    Replay(control::Replay),
    Pause(control::Pause),
    Resume(control::Resume),
    Completions(completions::Args),
}

/// Leaves the process, with exit code 2, if the command line is at fault.
pub(crate) fn parse() -> Command {
    Cli::parse().command
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Standalone(args) => serving::run(args.into()),
        Command::Proxy(args) => serving::run(args.into()),
        Command::Pusher(args) => serving::run(args.into()),
        Command::Check(args) => check::run(&args),
        Command::Send(args) => client(send::run(args)),
        Command::Listen(args) => client(listen::run(args)),
        Command::Topics(args) => client(topics::run(args)),
        Command::Groups(args) => client(groups::run(args)),
        Command::Completions(args) => completions::run(&args, &mut Cli::command()),
        Command::Cursor(args) => client(cursor::run(args)),
        Command::Replay(args) => client(control::replay(args)),
        Command::Pause(args) => client(control::pause(args)),
        Command::Resume(args) => client(control::resume(args)),
    }
}

/// Runs what talks to one other process: a single thread is plenty.
fn client(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

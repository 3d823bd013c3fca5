//! `mqgate check`: the verdict on a configuration, without starting anything.

use std::path::PathBuf;

use common::config::{self, Overrides, Role};

use crate::failure::Failure;
use crate::output;

/// Say whether a configuration is right, and what would be in effect
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate check mqgate.json
  mqgate check mqgate.json --for proxy
  mqgate check mqgate.json --json | jq .proxy.listen

Every fault is reported at once, with line, column and the nearest valid name; the exit code is 2 then.")]
pub(crate) struct Args {
    /// The configuration; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The command that will read it [default: pusher if it speaks of Kafka or ZooKeeper, else standalone]
    #[arg(long = "for", value_name = "COMMAND")]
    role: Option<Command>,
    /// Print the values in effect alone, as a file that says the same
    #[arg(long)]
    json: bool,
}

/// Those that read a configuration.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Command {
    Standalone,
    Proxy,
    Pusher,
}

impl From<Command> for Role {
    fn from(command: Command) -> Self {
        match command {
            Command::Standalone => Self::Standalone,
            Command::Proxy => Self::Proxy,
            Command::Pusher => Self::Pusher,
        }
    }
}

impl Args {
    fn is_standard_input(&self) -> bool {
        self.file.as_os_str() == "-"
    }

    /// As messages call it.
    fn name(&self) -> String {
        if self.is_standard_input() { "standard input".to_owned() } else { self.file.display().to_string() }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (name, role, overrides) = (args.name(), args.role.map(Role::from), Overrides::default());
    let loaded = if args.is_standard_input() {
        config::load_from(role, &name, std::io::stdin().lock(), &overrides)
    } else {
        config::load(role, &args.file, &overrides)
    };
    let loaded = loaded.map_err(|faults| Failure::Configuration(faults.render(output::colour_of_stderr())))?;
    if args.json {
        for warning in &loaded.warnings {
            anstream::eprint!("{}", warning.render(output::colour_of_stderr()));
        }
        return Ok(output::line(loaded.config.effective())?);
    }
    let verdict = config::verdict(&name, &loaded, output::colour_of_stdout());
    Ok(output::line(format_args!("{verdict}\nIn effect:\n{}", loaded.config.effective()))?)
}

//! Why a command ends without success, and the exit code that says so.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

#[derive(Debug)]
pub(crate) enum Failure {
    /// Exit code 1: it was tried, and did not succeed.
    Failed(anyhow::Error),
    /// Exit code 2: the command line or the configuration is at fault, and nothing was tried.
    Usage(anyhow::Error),
    /// Exit code 2: every fault of the configuration, rendered, with its line break.
    Configuration(String),
    /// Exit code 1; what there is to say has been printed.
    Reported,
}

impl Failure {
    pub(crate) fn failed(text: impl Display) -> Self {
        Self::Failed(anyhow::anyhow!("{text}"))
    }

    pub(crate) fn usage(text: impl Display) -> Self {
        Self::Usage(anyhow::anyhow!("{text}"))
    }

    /// What there is to say.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Failed(error) | Self::Usage(error) => format!("{error:#}"),
            Self::Configuration(faults) => faults.trim_end().to_owned(),
            Self::Reported => String::new(),
        }
    }

    /// Says why on stderr, and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (error, code) = match self {
            // Whoever read our output has gone (`| head`), and wants to hear no more.
            Self::Failed(error) if is_broken_pipe(&error) => return ExitCode::SUCCESS,
            Self::Failed(error) => (error, 1),
            Self::Usage(error) => (error, 2),
            Self::Configuration(faults) => {
                anstream::eprint!("{faults}");
                return ExitCode::from(2);
            }
            Self::Reported => return ExitCode::from(1),
        };
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        anstream::eprintln!("{red}error:{red:#} {error:#}");
        ExitCode::from(code)
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

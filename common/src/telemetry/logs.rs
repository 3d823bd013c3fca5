//! Logs go to stderr: text on a terminal, one JSON object a line otherwise.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::SubscriberInitExt;

const VARIABLE: &str = "RUST_LOG";

/// The embedded store narrates every flush and compaction at `info`.
const DEFAULT: &str = "info,fjall=warn,lsm_tree=warn";

/// Starts logging for the whole process: `info` and above, or what `RUST_LOG` says. Called once,
/// by `main`; where logging has been started before, nothing changes.
pub fn init() {
    let asked = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let (filter, refused) = match filter(asked.as_deref()) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(DEFAULT), Some(error)),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if std::io::stderr().is_terminal() {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        builder.with_ansi(colour).with_target(false).finish().try_init()
    } else {
        builder.json().flatten_event(true).finish().try_init()
    };
    if let (Ok(()), Some(error)) = (started, refused) {
        tracing::warn!(%error, value = asked, "{VARIABLE} is not understood; logging at {DEFAULT:?} instead");
    }
}

fn filter(asked: Option<&str>) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(asked.unwrap_or(DEFAULT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_and_what_rust_log_may_say_are_understood() {
        for asked in [None, Some("debug"), Some("info,pusher=trace"), Some("common::coordinator=debug")] {
            assert!(filter(asked).is_ok(), "{asked:?}");
        }
    }

    #[test]
    fn a_misspelt_level_is_an_error_and_no_silence() {
        assert!(filter(Some("pusher=loud")).is_err());
    }
}

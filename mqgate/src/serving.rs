//! The processes that serve: `standalone`, `proxy` and `pusher` are one composition with parts left out.

use std::path::{Path, PathBuf};

use common::config::{self, Config, Loaded, Overrides, Role};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub(crate) use self::args::{ProxyArgs, PusherArgs, StandaloneArgs};
use crate::failure::Failure;
use crate::output;
use gateway::Gateway;
use reload::Reloading;
use signals::Signals;

mod admin_port;
mod args;
mod backends;
mod banner;
mod gateway;
mod reload;
mod signals;

/// What a process is started with; a reload reads the same again.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    role: Role,
    file: Option<PathBuf>,
    overrides: Overrides,
}

impl Start {
    fn load(&self) -> Result<Loaded, config::Faults> {
        match &self.file {
            Some(file) => config::load(self.role, file, &self.overrides),
            None => config::defaults(self.role, &self.overrides),
        }
    }
}

pub(crate) fn run(start: Start) -> Result<(), Failure> {
    let loaded = start.load().map_err(|faults| Failure::Configuration(faults.render(output::colour_of_stderr())))?;
    common::telemetry::init_logs();
    say(start.file.as_deref(), &loaded);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(start, loaded.config))
}

fn say(file: Option<&Path>, loaded: &Loaded) {
    let file = file.map_or_else(|| "none: defaults and flags".to_owned(), |file| file.display().to_string());
    info!(version = env!("CARGO_PKG_VERSION"), configuration = file, "starting");
    say_effective(loaded);
}

fn say_effective(loaded: &Loaded) {
    for warning in &loaded.warnings {
        warn!("{}", warning.render(config::Colour::Plain).trim_end());
    }
    info!("effective configuration: {}", loaded.config.effective_in_one_line());
}

async fn serve(start: Start, config: Config) -> Result<(), Failure> {
    let drain = CancellationToken::new();
    let (signals, reloads) = Signals::take()?;
    let signals = tokio::spawn(signals.obey(drain.clone()));
    let (gateway, reloadable) = Gateway::start(&config, &drain).await?;
    banner::announce(&gateway.addresses(), &config);
    let reloading = tokio::spawn(Reloading::new(start, config, reloadable).run(reloads, drain.clone()));
    let ended = gateway.run(&drain, reloading).await;
    signals.abort();
    ended
}

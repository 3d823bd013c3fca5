//! SIGHUP: the file is read again, and its groups take the place of those that are served.

use common::config::{Config, Loaded};
use common::ids::GroupName;
use std::fmt::Write;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use pusher::{Applied, Reloader};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::backends::Backends;
use super::{Start, say_effective};

/// What a reload works on.
pub(super) struct Reloadable {
    pub(super) backends: Backends,
    /// `None`: this process pushes nothing.
    pub(super) pusher: Option<Reloader>,
    pub(super) metrics: ReloadMetrics,
}

#[derive(Clone, Default)]
pub(super) struct ReloadMetrics(Family<Labels, Counter>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    Applied,
    Refused,
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(match self {
            Self::Applied => "applied",
            Self::Refused => "refused",
        })
    }
}

impl ReloadMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        for outcome in [Outcome::Applied, Outcome::Refused] {
            drop(metrics.0.get_or_create(&Labels { outcome }));
        }
        registry.register("config_reloads", "Configurations read again on SIGHUP, and what became of them", metrics.0.clone());
        metrics
    }

    fn count(&self, outcome: Outcome) {
        self.0.get_or_create(&Labels { outcome }).inc();
    }
}

/// One reload after the other, each whole or not at all.
pub(super) struct Reloading {
    start: Start,
    current: Config,
    on: Reloadable,
}

impl Reloading {
    pub(super) fn new(start: Start, current: Config, on: Reloadable) -> Self {
        Self { start, current, on }
    }

    /// Until `drain`, which does not wait for a reload: what it was to begin, nobody serves any more.
    pub(super) async fn run(mut self, mut asked: mpsc::Receiver<()>, drain: CancellationToken) -> Backends {
        while let Some(Some(())) = drain.run_until_cancelled(asked.recv()).await {
            match drain.run_until_cancelled(self.reload()).await {
                Some(Ok(())) => self.on.metrics.count(Outcome::Applied),
                Some(Err(why)) => {
                    self.on.metrics.count(Outcome::Refused);
                    error!("SIGHUP: the new configuration is refused, the one before stays in force as a whole: {why}");
                }
                None => break,
            }
        }
        self.on.backends
    }

    async fn reload(&mut self) -> Result<(), String> {
        if self.start.file.is_none() {
            return Err("there is no file to read again: this process was started without -c".to_owned());
        }
        let start = self.start.clone();
        let loaded = tokio::task::spawn_blocking(move || start.load()).await.map_err(|error| error.to_string())?;
        let loaded = loaded.map_err(|faults| faults.render(common::config::Colour::Plain).trim_end().to_owned())?;
        self.current.reload(&loaded.config).map_err(|reasons| reasons.join("; "))?;
        let applied = self.apply(&loaded).await?;
        say_effective(&loaded);
        let Applied { added, removed, changed, unchanged } = applied;
        info!(added = %names(&added), removed = %names(&removed), changed = %names(&changed), unchanged = unchanged.len(), "SIGHUP: the new configuration is in force");
        self.current = loaded.config;
        Ok(())
    }

    async fn apply(&mut self, loaded: &Loaded) -> Result<Applied, String> {
        let Some(pusher) = &self.on.pusher else { return Ok(Applied::default()) };
        let setups = self.on.backends.setups(&loaded.config.groups).map_err(|failure| failure.reason())?;
        let applied = pusher.apply(setups).await.map_err(|error| error.to_string())?;
        self.on.backends.retain(&loaded.config);
        Ok(applied)
    }
}

fn names(groups: &[GroupName]) -> String {
    match groups {
        [] => "none".to_owned(),
        _ => groups.iter().map(GroupName::as_str).collect::<Vec<_>>().join(", "),
    }
}

//! The receiver of deliveries, in a process of its own, and how it is asked.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::child::Own;
use crate::message::Label;

pub(crate) mod serve;
mod tally;

/// How it answers.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Manner {
    /// How long each request takes.
    pub(crate) delay_ms: u64,
    pub(crate) failing: Failing,
    /// Whether it remembers when each message came.
    pub(crate) note_arrivals: bool,
}

/// Which keys are answered 500, always.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failing {
    #[default]
    None,
    First,
    OneInAHundred,
}

impl Failing {
    pub(crate) fn has(self, key: u32) -> bool {
        match self {
            Self::None => false,
            Self::First => key == 0,
            Self::OneInAHundred => key.is_multiple_of(100),
        }
    }
}

/// What it saw.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Different messages answered 200.
    pub(crate) done: u64,
    /// Messages answered 200 once more.
    pub(crate) repeated: u64,
    /// Messages answered 200 after a later one of their key.
    pub(crate) reordered: u64,
    /// Requests that came while another one of their key was open.
    pub(crate) overlapping: u64,
    pub(crate) failed: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

impl Seen {
    /// From the first request to the last answer.
    pub(crate) fn span(&self) -> Duration {
        Duration::from_nanos(self.last_ns.saturating_sub(self.first_ns))
    }

    /// Requests answered 200, repeats too.
    pub(crate) fn all(&self) -> u64 {
        self.done + self.repeated
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.done as f64 / self.span().as_secs_f64().max(1e-9)
    }

    /// # Errors
    /// If the guarantee was broken, or something came twice though nothing was disturbed.
    pub(crate) fn check(&self, expected: u64) -> anyhow::Result<()> {
        self.check_whole(expected)?;
        anyhow::ensure!(self.repeated == 0, "{expected} messages should have come once: {self:?}");
        Ok(())
    }

    /// # Errors
    /// If the guarantee was broken.
    pub(crate) fn check_whole(&self, expected: u64) -> anyhow::Result<()> {
        anyhow::ensure!(self.reordered == 0 && self.overlapping == 0, "THE GUARANTEE IS BROKEN: {self:?}");
        anyhow::ensure!(self.done == expected, "{expected} messages should have come: {self:?}");
        Ok(())
    }
}

pub(crate) struct Receiver {
    _own: Own,
    base: String,
    http: reqwest::Client,
}

impl Receiver {
    pub(crate) fn start() -> anyhow::Result<Self> {
        integration_tests::producer::install_tls_provider();
        let mut own = Own::start(&["receiver"])?;
        let base = format!("http://{}", own.line()?);
        Ok(Self { _own: own, base, http: reqwest::Client::new() })
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/callback", self.base)
    }

    /// Forgets what it saw, and answers so from now on.
    pub(crate) async fn set(&self, manner: Manner) -> anyhow::Result<()> {
        self.http.put(format!("{}/manner", self.base)).json(&manner).send().await?.error_for_status()?;
        Ok(())
    }

    pub(crate) async fn seen(&self) -> anyhow::Result<Seen> {
        Ok(self.http.get(format!("{}/seen", self.base)).send().await?.json().await?)
    }

    /// When each message first came, on the clock of all processes.
    pub(crate) async fn arrivals(&self) -> anyhow::Result<HashMap<Label, u64>> {
        let listed: Vec<(Label, u64)> = self.http.get(format!("{}/arrivals", self.base)).send().await?.json().await?;
        Ok(listed.into_iter().collect())
    }

    /// What it saw when so many messages were done, or the time is over.
    pub(crate) async fn until_done(&self, count: u64, within: Duration) -> anyhow::Result<Seen> {
        self.until(within, |seen| seen.done >= count).await
    }

    /// The same with repeats, as several groups make them.
    pub(crate) async fn until_all(&self, count: u64, within: Duration) -> anyhow::Result<Seen> {
        self.until(within, |seen| seen.all() >= count).await
    }

    async fn until(&self, within: Duration, enough: impl Fn(&Seen) -> bool) -> anyhow::Result<Seen> {
        let began = Instant::now();
        loop {
            let seen = self.seen().await?;
            if enough(&seen) || began.elapsed() > within {
                return Ok(seen);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

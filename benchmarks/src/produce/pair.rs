//! One server beside the other.

use std::time::Duration;

use crate::child::Own;
use crate::load::{Answered, Dialect, Pattern, Target};
use crate::run::Results;
use crate::stage::{Backend, Servers, Stage};
use crate::table::Row;
use crate::usage::{Meter, Usage};

/// Of every topic that is written to.
pub(super) const PARTITIONS: u32 = 8;
const WARM_UP: Duration = Duration::from_secs(1);

/// What one pattern of load cost a server.
pub(super) struct Measured {
    pub(super) answered: Answered,
    pub(super) usage: Usage,
}

impl Measured {
    async fn of(pid: i32, pattern: Pattern, target: &Target) -> anyhow::Result<Self> {
        let meter = Meter::start(pid)?;
        let answered = pattern.run(target).await?;
        Ok(Self { usage: meter.read()?, answered })
    }

    pub(super) fn cpu(&self) -> f64 {
        self.usage.cpu_s_per_100k(self.answered.records)
    }

    pub(super) fn ms(&self, quantile: f64) -> f64 {
        self.answered.latency_us.value_at_quantile(quantile) as f64 / 1_000.0
    }
}

/// One server beside the other, each pattern on both in turn.
pub(super) struct Pair<'a> {
    backend: Backend,
    stage: Stage<'a>,
    bare: (Own, Target),
}

impl<'a> Pair<'a> {
    pub(super) async fn start(backend: Backend, servers: &'a Servers) -> anyhow::Result<Self> {
        let stage = Stage::new(servers, PARTITIONS).await?;
        let mut bare = Own::start(&["bare-server"])?;
        let target = Target { server: bare.line()?.parse()?, topic: "bench".into(), dialect: Dialect::Ours };
        Ok(Self { backend, stage, bare: (bare, target) })
    }

    /// Of the bare server, and of mqgate, whose messages are all counted in its queue.
    pub(super) async fn measure(&self, name: &str, pattern: Pattern, results: &mut Results) -> anyhow::Result<(Measured, Measured)> {
        let warm_up = Pattern { duration: WARM_UP, ..pattern };
        warm_up.run(&self.bare.1).await?;
        let bare = Measured::of(self.bare.0.pid(), pattern, &self.bare.1).await?;
        let warm = warm_up.run(&self.stage.target).await?;
        anyhow::ensure!(warm.refused == 0, "{name}: {} requests were refused", warm.refused);
        let before = self.stage.written().await;
        let ours = Measured::of(self.stage.intake_pid(), pattern, &self.stage.target).await?;
        let (written, answered) = (self.stage.written().await - before, ours.answered.records);
        anyhow::ensure!(ours.answered.refused == 0 && written == answered, "{name}: {answered} answered, {written} written");
        let workload = format!("{} {name}", self.backend.name());
        results.rows.push(Row::new(&workload, "bare hyper server").answered(&bare.answered, &bare.usage));
        results.rows.push(Row::new(&workload, "mqgate").answered(&ours.answered, &ours.usage));
        Ok((bare, ours))
    }
}

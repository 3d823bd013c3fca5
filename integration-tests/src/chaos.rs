//! The chaos run: a whole fleet under traffic, broken by a seeded schedule, and a ledger over all of it.
//!
//! The seed fixes what is broken, how and for how long; how that falls together with the traffic differs from run to run.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

pub use self::report::Report;
use self::traffic::Traffic;
use self::world::World;

mod brokers;
mod faults;
mod lane;
mod operator;
mod processes;
mod receivers;
mod report;
mod servers;
mod traffic;
mod verdict;
mod world;

/// After the last fault is healed, for what waits in back-off and for takeovers.
const SETTLE: Duration = Duration::from_secs(90);

/// What is to be played.
#[derive(Debug, Clone, Copy)]
pub struct Chaos {
    pub seed: u64,
    /// Of the faults; starting and settling come on top.
    pub duration: Duration,
}

impl Chaos {
    /// `say` is told what is broken as it happens.
    pub async fn play(self, say: fn(&str)) -> Report {
        let mut world = World::start().await;
        let traffic = Traffic::start(&world);
        let end = CancellationToken::new();
        let timer = tokio::spawn({
            let end = end.clone();
            async move {
                tokio::time::sleep(self.duration).await;
                end.cancel();
            }
        });
        let began = Instant::now();
        let journal = world.break_things(self.seed, began, &end, say).await;
        timer.await.unwrap();
        say("no more faults; everything is healed, and what was acknowledged is waited for");
        let sent = traffic.stop().await;
        let settled = world.settle(&sent, &journal.faults(), SETTLE).await;
        Report::new(self, &journal, &sent, &world, settled)
    }
}

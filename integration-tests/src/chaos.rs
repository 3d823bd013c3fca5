//! The chaos run: a whole fleet under traffic, broken by a seeded schedule, and a ledger over all of it.
//!
//! The seed fixes what is broken, how and for how long; how that falls together with the traffic differs from run to run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use self::faults::Journal;
pub use self::receiver::{RECEIVER, receive};
pub use self::report::Report;
use self::traffic::Traffic;
use self::world::World;

mod brokers;
mod faults;
mod lane;
mod operator;
mod orders;
mod owners;
mod processes;
mod receiver;
mod receivers;
mod report;
mod senders;
mod servers;
mod traffic;
mod verdict;
mod world;

/// After the last fault is healed, for what waits in back-off and for takeovers.
const SETTLE: Duration = Duration::from_secs(75);
/// How often it is said how far it is.
const PROGRESS: Duration = Duration::from_secs(15);

/// What is to be played.
#[derive(Debug, Clone)]
pub struct Chaos {
    /// The one that has the command [`RECEIVER`]: the chaos run itself.
    pub program: PathBuf,
    pub seed: u64,
    /// Of the faults; starting and settling come on top.
    pub duration: Duration,
    /// Where the logs of the proxies and pushers are put at the end.
    pub logs: Option<PathBuf>,
}

impl Chaos {
    /// `say` is told what is broken as it happens.
    pub async fn play(self, say: fn(&str)) -> Report {
        let mut world = World::start(&self.program).await;
        let traffic = Traffic::start(&world);
        let (end, began) = (CancellationToken::new(), Instant::now());
        let journal = Journal::new(began, say);
        let counts = world.counts();
        let watch = async {
            while began.elapsed() < self.duration {
                tokio::time::sleep(PROGRESS.min(self.duration.saturating_sub(began.elapsed()))).await;
                let (acked, requests) = (traffic.acked(), counts.iter().map(|count| *count.borrow()).sum::<usize>());
                journal.note(&format!("{acked} messages acknowledged, {requests} requests received, {} faults over", journal.over()));
            }
            end.cancel();
        };
        tokio::join!(watch, world.break_things(self.seed, &journal, &end));
        journal.note("no more faults; everything is healed, and what was acknowledged is waited for");
        let sent = traffic.stop().await;
        let settled = world.settle(&sent, &journal.done(), SETTLE).await;
        if let Some(folder) = &self.logs {
            world.keep_logs(folder);
        }
        Report::new(self, &journal, &sent, &world, settled)
    }
}

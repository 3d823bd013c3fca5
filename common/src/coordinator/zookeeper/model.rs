//! The simulated side of the model test: servers and networks that lose, delay and forget, clocks, a log,
//! receivers, and the truth about all of them, with the protocol's invariants checked after every step.
//!
//! The test itself is in the crate `pusher` (`pusher/src/model`), whose fleet, keepers and committer it drives
//! over the real engine and the real coordinator of this crate. Simulated: the servers behind
//! [`super::servers`], time, the queue, receivers in the place of HTTP. Rules are broken on purpose where the program
//! meets either: on the wire (`wire`), or by a coordinator that lies to it (`witness`).
//!
//! Each process has a runtime of its own whose clock stands still, and is looked at for what it asks only while none
//! of them runs. So a history is nearly always the same each time it is run: tokio wakes those who wait for a `watch`
//! in an order of chance.
//!
//! A server that is cut off from its leader goes on noting of which clients it heard, and once its
//! connection carries again it first answers the pings that waited there (`Learner.ping`); or the
//! connection is lost, and with it those of its clients, who ask the leader for their sessions anew
//! (`Learner.shutdown`, `REVALIDATE`). No client stays connected to a server that has forgotten it.

#![allow(clippy::unwrap_used, reason = "these are tests, in a module that other crates can see")]

use std::time::Duration;

use self::history::History;
#[cfg(test)]
pub(super) use self::pair::Pair;
pub use self::process::{Host, Program};
pub use self::steps::{Setup, Step, What};
pub use self::wire::Broken;
pub use self::world::Flow;

mod history;
mod log;
#[cfg(test)]
mod pair;
mod process;
mod steps;
mod tree;
mod truth;
mod turns;
mod wire;
mod witness;
mod world;

/// What a history came to: the same each time it is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Course {
    pub transactions: u64,
    pub attempts: u64,
    /// Of the simulated servers.
    pub took: Duration,
}

/// Runs a history of programs to its end.
///
/// # Errors
/// The invariant that did not hold, and after which step.
pub fn history<P: Program>(setup: &Setup, steps: &[Step], broken: Option<Broken>) -> Result<Course, String> {
    History::<P>::run(setup, steps, broken)
}

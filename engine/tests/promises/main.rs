//! What the engine promises, against its public interface, with paused time.
#![allow(clippy::unwrap_used, clippy::single_range_in_vec_init, unreachable_pub, dead_code)]

mod bounds;
mod commits;
mod delay;
mod delivery;
mod gate;
mod metrics;
mod order;
mod release;
mod restraint;
mod retry;
mod rig;
mod sharing;
mod stress;
mod timeout;

//! What the engine promises, against its public interface, with paused time.
#![allow(clippy::unwrap_used, unreachable_pub, dead_code)]

mod delivery;
mod rig;

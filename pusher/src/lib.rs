//! The Pusher: decides which partitions of which groups this process owns, and delivers their
//! records to the groups' receivers.

pub mod admin;
mod backoff;
mod births;
mod cluster;
mod committer;
mod dead_letter;
pub mod decode;
pub mod delivery;
mod directory;
mod factory;
mod fleet;
mod fleets;
mod group;
mod keeper;
mod member;
mod metrics;
#[cfg(test)]
mod model;
mod prepare;
mod pusher;
mod readout;
mod roster;
mod source;
mod stop;

pub use crate::fleets::{Applied, Reloader};
pub use crate::group::GroupSetup;
pub use crate::prepare::StartError;
pub use crate::pusher::Pusher;

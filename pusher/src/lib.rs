//! The Pusher: decides which partitions of which groups this process owns, and delivers their
//! records to the groups' receivers.

pub mod admin;
mod backoff;
mod births;
mod committer;
mod dead_letter;
pub mod decode;
pub mod delivery;
mod directory;
mod fleet;
mod group;
mod keeper;
mod member;
mod metrics;
mod prepare;
mod pusher;
mod readout;
mod source;
mod stop;

pub use crate::prepare::StartError;
pub use crate::pusher::Pusher;

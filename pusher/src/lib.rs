//! The Pusher: decides which partitions of which groups this process owns, and delivers their
//! records to the groups' receivers.

pub mod admin;
mod dead_letter;
pub mod decode;
pub mod delivery;
mod pusher;

pub use crate::pusher::{Pusher, StartError};

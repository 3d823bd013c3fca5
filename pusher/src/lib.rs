//! The Pusher: decides which partitions of which groups this process owns, and delivers their
//! records to the groups' receivers.

mod pusher;

pub use crate::pusher::{Pusher, StartError};

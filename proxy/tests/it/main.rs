//! The produce server over real sockets, on the real embedded log in a temporary folder.

#![allow(clippy::unwrap_used)]

mod batches;
mod client;
mod edge;
mod gate;
mod gateway;
mod lifecycle;
mod limits;
mod payloads;

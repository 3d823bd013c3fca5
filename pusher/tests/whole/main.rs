//! The whole pusher over the real embedded queue and coordinator, against real HTTP receivers.
#![allow(clippy::unwrap_used)]

mod admin;
mod births;
mod delivery;
mod drain;
mod faults;
mod fleet;
mod outages;
mod ownership;
mod receiver;
mod rig;
mod scrape;

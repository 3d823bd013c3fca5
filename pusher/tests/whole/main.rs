//! The whole pusher over the real embedded queue and coordinator, against real HTTP receivers.
#![allow(clippy::unwrap_used)]

mod admin;
mod births;
mod clusters;
mod delivery;
mod drain;
mod faults;
mod fleet;
mod lease;
mod outages;
mod ownership;
mod receiver;
mod reload;
mod replay;
mod rig;
mod scrape;

//! Everything that is only true of the whole: the release binary, real disks, real sockets.
#![allow(clippy::unwrap_used, clippy::too_many_lines, clippy::large_futures)]

mod clients;
mod crash;
mod deliveries;
mod drain;
mod main_job;
mod outage;
mod policy;
mod slow_clients;
mod targets;
mod tidy;

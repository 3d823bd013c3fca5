//! Everything that is only true of the whole: the release binary, real disks, real sockets.
#![allow(clippy::unwrap_used, clippy::too_many_lines, clippy::large_futures)]

mod crash;
mod drain;
mod main_job;
mod outage;
mod policy;
mod tidy;

//! The binary as a user sees it: run, spoken to, and read.
#![allow(clippy::unwrap_used)]

mod admin_port;
mod canned;
mod gateway;
mod help;
mod listen;
mod operate;
mod process;
mod readme;
mod scripts;
mod send;
mod standalone;

//! The binary as a user sees it: run, spoken to, and read.
#![allow(clippy::unwrap_used)]

mod help;
mod listen;
mod process;
mod scripts;

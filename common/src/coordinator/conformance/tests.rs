//! The promises.

pub mod begin;
pub mod control;
pub mod own;
pub mod replay;

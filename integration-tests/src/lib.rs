//! The harness of the integration tests: it runs the real release binary, answers it as a scripted
//! receiver, breaks what it stands on, and keeps the ledger that gives the verdict.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod backend;
pub mod binary;
pub mod black_hole;
pub mod chaos;
pub mod cluster;
pub mod freeze;
pub mod gateway;
pub mod java;
pub mod jumping_clock;
pub mod kafka;
pub mod ledger;
pub mod load;
pub mod names;
pub mod payloads;
pub mod ports;
pub mod producer;
pub mod python;
pub mod raw;
pub mod receiver;
pub mod relay;
pub mod request;
pub mod shim;
pub mod small_disk;
pub mod tls;
pub mod wait;
pub mod zookeeper;

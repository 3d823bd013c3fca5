//! An asynchronous message framework: events of a partitioned log, processed at least once, in
//! key order, with retries, delay, back-pressure and a cursor that never passes what is unfinished.
//!
//! It knows no HTTP and no queue. A [`Source`](ports::Source) yields records, a
//! [`Decoder`](ports::Decoder) makes events of them, a [`Processor`](ports::Processor) handles
//! each, and a [`CursorSink`](ports::CursorSink) is told how far the partition has come. A
//! [`Task`](task::Task) puts them together. `examples/catalog.rs` is a small program with all of it.
//!
//! Inside, each partition has one loop (`partition`) that owns its state; what it decides is pure
//! (`core`); what partitions share are semaphores (`slots`).

mod core;
pub mod event;
pub mod ids;
pub mod metrics;
pub mod options;
mod partition;
pub mod ports;
mod restraint;
mod slots;
mod status;
pub mod task;

//! An asynchronous message framework: events of a partitioned log, processed at least once, in
//! key order, with retries, delay, back-pressure and a cursor that never passes what is unfinished.
//!
//! It knows no HTTP and no queue. A [`Source`] yields records, a [`Decoder`] makes events of them,
//! a [`Processor`] handles each, and a [`CursorSink`] is told how far the partition has come.

pub mod event;
pub mod ids;
pub mod metrics;
pub mod options;
pub mod ports;
pub mod task;

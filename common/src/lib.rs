//! What the proxy and the pusher share: ids, records, the configuration, telemetry, and the two
//! seams behind which everything outside this process lives: [`queue`] and [`coordinator`].

pub mod admin;
pub mod clock;
pub mod config;
pub mod coordinator;
pub mod ids;
pub mod problem;
pub mod queue;
pub mod record;
pub mod serve;
pub mod store;
pub mod telemetry;

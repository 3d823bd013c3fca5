//! MqProxy: takes POSTed messages and writes them to the queue.
//!
//! The way of a request: `server` accepts it, `router` shows every route and the order of all
//! that happens to it, `framing` and `admission` let it in or not, `decode` turns it into messages without
//! waiting for anything, `produce` hands them to the queue and waits, `render` answers. A batch
//! goes through `batch` instead of `produce`, with many messages on their way at once.

pub use self::server::{Bound, Proxy, StartError};

mod admission;
mod answer;
mod batch;
mod context;
mod decode;
mod framing;
mod message_id;
mod metrics;
mod produce;
mod refusal;
mod render;
mod router;
mod server;
mod target;
mod upload;

//! What the machine allows: the same libraries with nothing around them.

pub(crate) mod client;
pub(crate) mod producer;
pub(crate) mod server;

//! HTTP delivery against a receiver that does exactly what it is told, byte by byte.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "delivery/answers.rs"]
mod answers;
#[path = "delivery/bench.rs"]
mod bench;
#[path = "delivery/connecting.rs"]
mod connecting;
#[path = "delivery/dead_letters.rs"]
mod dead_letters;
#[path = "delivery/lost_answers.rs"]
mod lost_answers;
#[path = "delivery/receiver.rs"]
mod receiver;
#[path = "delivery/requests.rs"]
mod requests;

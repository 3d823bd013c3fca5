//! The ways that are measured. Before each, as much is done as fills pools, caches and tables.

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cost::Cost;
use crate::gateway::Gateway;
use crate::wire::{self, Client};

const VALUE_BYTES: usize = 1_024;
const BATCH: u32 = 100;
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy)]
pub(crate) enum Receiver {
    /// Allocates nothing.
    Frugal,
    /// As if delivery allocated so much more.
    Wasteful { allocations: usize },
}

/// One after the other over one connection.
pub(crate) fn post() -> Cost {
    let (gateway, posts) = (Gateway::start(None), keyed_posts());
    let mut client = Client::connect(gateway.proxy);
    let mut ask_all = || posts.iter().for_each(|request| client.ask(request));
    ask_all();
    Cost::of_one("post", || {
        ask_all();
        len(&posts)
    })
}

fn keyed_posts() -> Vec<Vec<u8>> {
    let value = "x".repeat(VALUE_BYTES);
    let request =
        |n| format!("POST /topics/t?key=key-{n} HTTP/1.1\r\nhost: t\r\ncontent-length: {VALUE_BYTES}\r\n\r\n{value}").into_bytes();
    (0..1_000).map(request).collect()
}

/// One batch after the other over one connection.
pub(crate) fn batch() -> Cost {
    const BATCHES: u32 = 50;
    let gateway = Gateway::start(None);
    let (mut client, line) = (Client::connect(gateway.proxy), "x".repeat(VALUE_BYTES));
    let request = batch_request("?raw", (0..BATCH).map(|_| line.as_str()));
    let mut ask_all = || (0..BATCHES).for_each(|_| client.ask(&request));
    ask_all();
    Cost::of_one("batch", || {
        ask_all();
        BATCHES * BATCH
    })
}

fn batch_request<'a>(query: &str, lines: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut body = String::new();
    lines.for_each(|line| writeln!(body, "{line}").unwrap());
    let length = body.len();
    format!(
        "POST /topics/t/batch{query} HTTP/1.1\r\nhost: t\r\ncontent-type: application/x-ndjson\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Of a backlog with different keys, several at a time, to a receiver that answers at once.
pub(crate) fn delivery(to: Receiver) -> Cost {
    const WARM_UP: u32 = 1_000;
    const RECORDS: u32 = 4_000;
    /// More than is read ahead: while it counts, as many are read as are delivered.
    const LEFT: u32 = 1_500;
    let wasted = match to {
        Receiver::Frugal => 0,
        Receiver::Wasteful { allocations } => allocations,
    };
    let receiver = wire::Receiver::start(move || (0..wasted).for_each(|_| drop(black_box(Box::new(0_u64)))));
    let url = format!("http://{}/hook", receiver.address);
    let group = json!({"group": "g", "topics": ["t"], "url": url, "initial_from_oldest": true, "worker_num": 16});
    let mut gateway = Gateway::start(Some(&group));
    fill(&gateway, WARM_UP + RECORDS + LEFT);
    gateway.push();
    until_answered(&receiver, WARM_UP);
    Cost::of_one("delivery", || {
        let before = receiver.answered();
        until_answered(&receiver, before + RECORDS);
        receiver.answered() - before
    })
}

fn fill(gateway: &Gateway, records: u32) {
    let mut client = Client::connect(gateway.proxy);
    let value = "x".repeat(VALUE_BYTES);
    for batch in 0..records / BATCH {
        let lines: Vec<String> = (0..BATCH).map(|n| json!({"key": format!("key-{batch}-{n}"), "value": value}).to_string()).collect();
        client.ask(&batch_request("", lines.iter().map(String::as_str)));
    }
}

fn until_answered(receiver: &wire::Receiver, count: u32) {
    let deadline = Instant::now() + PATIENCE;
    while receiver.answered() < count {
        assert!(Instant::now() < deadline, "{} of {count} delivered", receiver.answered());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn len(requests: &[Vec<u8>]) -> u32 {
    u32::try_from(requests.len()).unwrap()
}

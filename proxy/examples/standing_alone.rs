//! The proxy on the embedded log in a folder, and nothing behind it: what a load generator is
//! pointed at. `cargo run --release -p proxy --example standing_alone -- FOLDER [PORT]`

use std::sync::Arc;
use std::time::Duration;

use common::config::{EmbeddedQueueConfig, ProxyConfig};
use common::queue::embedded::{EmbeddedQueue, Options};
use common::store::Store;
use prometheus_client::registry::Registry;
use proxy::Proxy;
use tokio_util::sync::CancellationToken;

const USAGE: &str = "usage: standing_alone FOLDER [PORT]";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or(USAGE)?;
    let port: u16 = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let mut registry = Registry::with_prefix("mqgate");
    let queue = EmbeddedQueue::open(Store::open(folder.as_ref())?, Options::from(&log(&folder)), &mut registry)?;
    let proxy = Proxy::bind(&config(port), Arc::clone(&queue) as _, &mut registry)?;
    println!("http://{}", proxy.local_addr());
    let drain = CancellationToken::new();
    let interrupted = drain.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupted.cancel();
        }
    });
    proxy.run(drain).await;
    queue.shutdown().await;
    Ok(())
}

fn config(port: u16) -> ProxyConfig {
    ProxyConfig {
        listen: ([127, 0, 0, 1], port).into(),
        admin: ([127, 0, 0, 1], 0).into(),
        admin_token: None,
        allow_anonymous: false,
        produce_timeout: Duration::from_secs(5),
        max_message_bytes: 1_000_000,
        max_in_flight_requests: 10_000,
        max_in_flight_bytes: 64 << 20,
        head_timeout: Duration::from_secs(10),
        body_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(75),
        drain_timeout: Duration::from_secs(25),
    }
}

fn log(folder: &str) -> EmbeddedQueueConfig {
    EmbeddedQueueConfig {
        dir: folder.into(),
        partitions: 4,
        auto_create_topics: true,
        retention: Duration::from_secs(3600),
        retention_bytes: Some(2 << 30),
        max_topics: 1000,
    }
}

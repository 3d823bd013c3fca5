//! What delivery costs on top of the HTTP client below it: CPU seconds per 100,000 requests of 1 KiB,
//! 64 in flight, against a receiver in a process of its own, alternating in one run.
//!
//! `cargo run --release -p pusher --example delivery_cost [REQUESTS]`

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use bytes::Bytes;
use common::config::{GroupConfig, Overrides, QueueConfig, Role, Serializer};
use common::coordinator::{Lease, LeaseHolder};
use common::ids::{Offset, Partition, Topic};
use common::queue::Queue;
use common::queue::embedded::{EmbeddedQueue, Options};
use common::record::{Payload, Record};
use common::store::Store;
use engine::event::{Attempt, Event, Outcome};
use engine::options::EventTypes;
use engine::ports::{Decoded, Decoder, Processor};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use pusher::decode::{Delivered, Origin, RecordDecoder, SourcedRecord};
use pusher::delivery::{Delivery, DeliveryMetrics, Tls};
use tempfile::TempDir;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const IN_FLIGHT: u32 = 64;
const VALUE: &[u8] = &[b'x'; 1024];
const ROUNDS: usize = 5;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads can be started");
    match std::env::args().nth(1).as_deref() {
        Some("receive") => runtime.block_on(receive()),
        requests => runtime.block_on(compare(requests.and_then(|requests| requests.parse().ok()).unwrap_or(100_000))),
    }
}

async fn receive() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    println!("{}", listener.local_addr().expect("it is bound"));
    std::io::stdout().flush().expect("the parent listens");
    loop {
        let (stream, _) = listener.accept().await.expect("accepting works");
        stream.set_nodelay(true).expect("a TCP option");
        let service = service_fn(async |request: Request<Incoming>| {
            let _ = request.into_body().collect().await;
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
        });
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

/// The other process, which ends with this one.
struct Receiver(Child);

impl Receiver {
    fn start() -> (Self, String) {
        let own = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(own).arg("receive").stdout(Stdio::piped()).spawn().expect("it starts once more");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut address).expect("it says its address");
        (Self(child), format!("http://{}/cb", address.trim()))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

async fn compare(requests: u32) {
    let (_receiver, url) = Receiver::start();
    let bare = Arc::new(Bare::new(&url));
    let delivery = Arc::new(Delivered1KiB::new(&url));
    let (mut bare_costs, mut delivery_costs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let of_bare = measure("bare hyper-util client", requests, || Arc::clone(&bare)).await;
        let of_delivery = measure("delivery", requests, || Arc::clone(&delivery)).await;
        bare_costs.push(of_bare);
        delivery_costs.push(of_delivery);
    }
    let (bare, delivery) = (median(bare_costs), median(delivery_costs));
    println!("medians: bare {bare:.2}, delivery {delivery:.2}, {:+.2} CPU s per 100,000; ratio {:.2}", delivery - bare, delivery / bare);
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

trait Send1KiB: Send + Sync + 'static {
    fn send(&self) -> impl Future<Output = ()> + Send;
}

/// CPU seconds per 100,000.
async fn measure<S: Send1KiB>(name: &str, requests: u32, sender: impl Fn() -> Arc<S>) -> f64 {
    let left = Arc::new(AtomicU32::new(requests));
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let workers: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (left, sender) = (Arc::clone(&left), sender());
            tokio::spawn(async move {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    sender.send().await;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("no worker panics");
    }
    let cost = (cpu_seconds() - cpu) / f64::from(requests) * 100_000.0;
    println!("{name:>24}: {:>6.0} a second, {cost:.2} CPU s per 100,000", f64::from(requests) / began.elapsed().as_secs_f64());
    cost
}

/// User and system time of this process: fields 14 and 15 of `stat`, in hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let (_, after_name) = stat.rsplit_once(')').expect("the name is in brackets");
    let ticks = after_name.split_ascii_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number of ticks")).sum::<f64>() / 100.0
}

struct Bare {
    client: Client<HttpConnector, Full<Bytes>>,
    url: http::Uri,
}

impl Bare {
    fn new(url: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { client, url: url.parse().expect("it is a URL") }
    }
}

impl Send1KiB for Bare {
    async fn send(&self) {
        let request = Request::post(self.url.clone()).body(Full::new(Bytes::from_static(VALUE))).expect("it is a request");
        let answer = self.client.request(request).await.expect("it is answered");
        answer.into_body().collect().await.expect("it is read");
    }
}

struct Delivered1KiB {
    delivery: Delivery,
    decoder: RecordDecoder,
    origin: Arc<Origin>,
    _lease: LeaseHolder,
    _folder: TempDir,
}

impl Delivered1KiB {
    fn new(url: &str) -> Self {
        let (holder, lease) = Lease::new(true);
        let metrics = DeliveryMetrics::register(&mut Registry::default());
        let folder = tempfile::tempdir().expect("there is room");
        let delivery = Delivery::new(&group(url), queue(folder.path()), lease, &metrics, &Tls::system());
        Self {
            delivery: delivery.expect("http needs no certificates"),
            decoder: RecordDecoder::new(Serializer::Raw, Counter::default()),
            origin: Origin::new(&topic(), None, "", Partition(3)),
            _lease: holder,
            _folder: folder,
        }
    }

    fn event(&self) -> Event<Delivered> {
        let payload = Payload { key: Some(Bytes::from_static(b"key-4711")), value: Some(Bytes::from_static(VALUE)), headers: Vec::new() };
        let record = Record { offset: Offset(123_456), timestamp: 1_700_000_000_000, payload };
        match self.decoder.decode(SourcedRecord { origin: Arc::clone(&self.origin), record }, &EventTypes::default()) {
            Decoded::Event(event) => event,
            Decoded::Skip { .. } => unreachable!("nothing is skipped"),
        }
    }
}

impl Send1KiB for Delivered1KiB {
    async fn send(&self) {
        let attempt = Attempt { number: 0, round: 0, epoch: engine::ids::Epoch(1) };
        let outcome = self.delivery.process(&self.event(), attempt).await;
        assert_eq!(outcome, Outcome::Done);
    }
}

fn topic() -> Topic {
    Topic::new("orders").expect("it is legal")
}

fn group(url: &str) -> GroupConfig {
    let file =
        format!(r#"{{"consumer_groups":[{{"group":"g","url":"{url}","topics":["orders"],"worker_num":{IN_FLIGHT},"timeout":"10s"}}]}}"#);
    let loaded = common::config::parse(Role::Standalone, "the example", file.as_bytes(), &Overrides::default());
    loaded.expect("it is correct").config.groups.into_iter().next().expect("there is one")
}

/// For dead letters, of which there are none here.
fn queue(folder: &Path) -> Arc<dyn Queue> {
    let loaded = common::config::defaults(Role::Standalone, &Overrides::default()).expect("the defaults are correct");
    let QueueConfig::Embedded(config) = loaded.config.queue else { unreachable!("standalone has its own queue") };
    let store = Store::open(folder).expect("the folder is new");
    EmbeddedQueue::open(store, Options::from(&config), &mut Registry::default()).expect("an empty log can be read")
}

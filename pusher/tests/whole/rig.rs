//! One data folder, and pushers that are started on it and drained again.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use common::config::{GroupConfig, Overrides, PusherConfig, Role};
use common::coordinator::Coordinator;
use common::coordinator::embedded::EmbeddedCoordinator;
use common::ids::{GroupName, GroupPartition, Offset, Partition, Topic};
use common::queue::embedded::{EmbeddedQueue, Options};
use common::queue::{Ack, Produced, Queue};
use common::record::{Message, Payload};
use common::store::Store;
use common::telemetry::{Exposition, Metrics};
use http_body_util::BodyExt;
use pusher::{Applied, GroupSetup, Pusher, Reloader, StartError};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

pub(crate) struct Rig {
    pub(crate) dir: TempDir,
    pub(crate) options: Options,
    pub(crate) drain_timeout: Duration,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let config = common::config::EmbeddedQueueConfig {
            dir: "unused".into(),
            partitions: 4,
            auto_create_topics: true,
            retention: Duration::from_secs(7 * 24 * 3600),
            retention_bytes: None,
            max_topics: 100,
        };
        Self { dir: tempfile::tempdir().unwrap(), options: Options::from(&config), drain_timeout: Duration::from_secs(5) }
    }

    /// The stores alone. A task that has ended may hold the folder until the runtime has dropped it.
    pub(crate) fn open(&self) -> Stores {
        let mut metrics = Metrics::new("test");
        let deadline = Instant::now() + Duration::from_secs(5);
        let store = loop {
            match Store::open(self.dir.path()) {
                Ok(store) => break store,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let queue = EmbeddedQueue::open(store.clone(), self.options.clone(), metrics.registry()).unwrap();
        let coordinator = Arc::new(EmbeddedCoordinator::open(&store).unwrap());
        Stores { store, queue, coordinator, metrics }
    }

    pub(crate) async fn start(&self, groups: &[GroupConfig]) -> Running {
        Running::start(self.open(), groups, self.drain_timeout).await
    }
}

pub(crate) struct Stores {
    pub(crate) store: Store,
    pub(crate) queue: Arc<EmbeddedQueue>,
    pub(crate) coordinator: Arc<EmbeddedCoordinator>,
    pub(crate) metrics: Metrics,
}

pub(crate) struct Running {
    pub(crate) queue: Arc<EmbeddedQueue>,
    pub(crate) coordinator: Arc<EmbeddedCoordinator>,
    drain: CancellationToken,
    run: JoinHandle<Result<(), StartError>>,
    v1: Router,
    metrics: Metrics,
    reloader: Reloader,
    missing: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    seen: (Arc<dyn Queue>, Arc<dyn Coordinator>),
    _store: Store,
}

impl Running {
    async fn start(stores: Stores, groups: &[GroupConfig], drain_timeout: Duration) -> Self {
        let (queue, coordinator) = (stores.queue.clone(), stores.coordinator.clone());
        Self::start_on(stores, queue, coordinator, groups, drain_timeout).await
    }

    /// With something put before the queue or the coordinator.
    pub(crate) async fn start_on(
        stores: Stores,
        seen_queue: Arc<dyn Queue>,
        seen_coordinator: Arc<dyn Coordinator>,
        groups: &[GroupConfig],
        drain_timeout: Duration,
    ) -> Self {
        let setups = setups(groups, &seen_queue, &seen_coordinator);
        let mut running = Self::start_with(stores, (seen_queue, seen_coordinator), &setups, drain_timeout);
        running.wait_ready().await;
        running
    }

    /// Groups on several queues and coordinators, of which not all have to answer.
    pub(crate) fn start_with(
        stores: Stores,
        seen: (Arc<dyn Queue>, Arc<dyn Coordinator>),
        setups: &[GroupSetup],
        drain_timeout: Duration,
    ) -> Self {
        let Stores { store, queue, coordinator, mut metrics } = stores;
        let config = PusherConfig {
            admin: "127.0.0.1:9091".parse().unwrap(),
            admin_token: None,
            instance: "me".into(),
            session_timeout: Duration::from_secs(15),
            drain_timeout,
            max_buffered_bytes: 64 << 20,
        };
        let drain = CancellationToken::new();
        let mut pusher = Pusher::start(&config, setups, metrics.registry()).unwrap();
        metrics.before_scrape(pusher.refresh());
        let v1 = pusher.admin_routes(seen.0.clone());
        let (reloader, missing) = (pusher.reloader(), Box::new(pusher.readiness(seen.0.clone())));
        let draining = drain.clone();
        let run = tokio::spawn(async move {
            pusher.prepare(&draining).await?;
            pusher.run(draining).await
        });
        Self { queue, coordinator, drain, run, v1, metrics, reloader, missing, seen, _store: store }
    }

    pub(crate) async fn wait_ready(&mut self) {
        let ready = async {
            while !(self.missing)().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            waited = tokio::time::timeout(Duration::from_secs(20), ready) => assert!(waited.is_ok(), "{:?}", (self.missing)()),
            ended = &mut self.run => panic!("it ended: {ended:?}"),
        }
    }

    pub(crate) fn missing(&self) -> Vec<String> {
        (self.missing)()
    }

    /// Other groups on the queue and the coordinator that it was started with.
    pub(crate) async fn reload(&self, groups: &[GroupConfig]) -> Result<Applied, StartError> {
        self.reload_to(setups(groups, &self.seen.0, &self.seen.1)).await
    }

    pub(crate) async fn reload_to(&self, setups: Vec<GroupSetup>) -> Result<Applied, StartError> {
        self.reloader.apply(setups).await
    }

    /// Everything is closed when this returns: the folder can be opened again.
    pub(crate) async fn drain(self) -> Duration {
        let began = Instant::now();
        self.drain.cancel();
        tokio::time::timeout(Duration::from_secs(20), self.run).await.unwrap().unwrap().unwrap();
        began.elapsed()
    }

    pub(crate) async fn post(&self, topic: &str, key: Option<&str>, value: &str) -> Produced {
        self.produce(topic, None, key, value).await
    }

    pub(crate) async fn post_to(&self, topic: &str, partition: u32, value: &str) -> Produced {
        self.produce(topic, Some(Partition(partition)), Some("k"), value).await
    }

    pub(crate) async fn post_at(&self, topic: &str, partition: u32, timestamp: i64, value: &str) -> Produced {
        let payload = Payload { key: Some("k".into()), value: Some(value.to_owned().into()), headers: Vec::new() };
        let message = Message { topic: named(topic), partition: Some(Partition(partition)), timestamp: Some(timestamp), payload };
        self.queue.produce(message, Ack::All).await.unwrap()
    }

    async fn produce(&self, topic: &str, partition: Option<Partition>, key: Option<&str>, value: &str) -> Produced {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let payload = Payload { key: key.map(bytes), value: Some(bytes(value)), headers: Vec::new() };
        self.queue.produce(Message { topic: named(topic), partition, timestamp: None, payload }, Ack::All).await.unwrap()
    }

    pub(crate) async fn queue_topic(&self, topic: &str, partitions: u32) {
        self.queue.create_topic(&named(topic), partitions).await.unwrap();
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path, None).await
    }

    pub(crate) async fn request(&self, method: &str, path: &str, json: Option<Value>) -> (u16, Value) {
        let body = json.map_or_else(Body::empty, |json| Body::from(json.to_string()));
        let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json").body(body).unwrap();
        let response = self.v1.clone().call(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() })
    }

    pub(crate) async fn scrape(&self) -> String {
        self.metrics.scrape(Exposition::Prometheus).await
    }

    /// Lets the fleet look again at once.
    pub(crate) async fn hint(&self) {
        let nobody = GroupName::new("nobody").unwrap();
        self.coordinator.set_paused(&nobody, true).await.unwrap();
    }

    /// Waits until every partition of the group that exists has its cursor at its end.
    pub(crate) async fn wait_caught_up(&self, group: &str) {
        self.wait_until(group, |partition| partition["lag"] == 0 && partition["live"]["unfinished"] == 0).await;
    }

    /// Waits until all partitions of the group, at least one, are so.
    pub(crate) async fn wait_until(&self, group: &str, so: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let (status, detail) = self.get(&format!("/groups/{group}")).await;
            assert_eq!(status, 200, "{detail}");
            let partitions = detail["partitions"].as_array().unwrap();
            if !partitions.is_empty() && partitions.iter().all(&so) {
                return;
            }
            assert!(Instant::now() < deadline, "{detail:#}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) async fn wait_for(so: impl AsyncFn() -> bool) {
    let wait = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it comes true in time");
}

pub(crate) fn setups(groups: &[GroupConfig], queue: &Arc<dyn Queue>, coordinator: &Arc<dyn Coordinator>) -> Vec<GroupSetup> {
    groups.iter().map(|config| GroupSetup { config: config.clone(), queue: queue.clone(), coordinator: coordinator.clone() }).collect()
}

pub(crate) fn named(topic: &str) -> Topic {
    Topic::new(topic).unwrap()
}

pub(crate) fn at(group: &str, topic: &str, partition: u32) -> GroupPartition {
    GroupPartition { group: GroupName::new(group).unwrap(), topic: named(topic), partition: Partition(partition) }
}

pub(crate) fn cursor(progress: Option<common::coordinator::Progress>) -> Option<Offset> {
    progress.map(|progress| progress.cursor)
}

/// As the file's defaults, but for a group that starts at the oldest record, and for shorter waits.
pub(crate) fn group(name: &str, receiver: std::net::SocketAddr, topics: &[&str]) -> GroupConfig {
    let entry = serde_json::json!({
        "group": name,
        "url": format!("http://{receiver}/{name}"),
        "topics": topics,
        "initial_from_oldest": true,
        "failed_sleep": "100ms",
        "timeout": "5s",
        "retry_backoff": { "initial": "50ms", "max": "200ms" },
        "commit_interval": "100ms",
    });
    let file = serde_json::json!({ "consumer_groups": [entry] }).to_string();
    let loaded = common::config::parse(Role::Standalone, "the test", file.as_bytes(), &Overrides::default()).unwrap();
    loaded.config.groups.into_iter().next().unwrap()
}

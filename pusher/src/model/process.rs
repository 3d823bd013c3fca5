//! A pusher as one process of a history runs it: everything of it but what speaks HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::config::{GroupConfig, Overrides, PusherConfig, Role};
use common::coordinator::Coordinator;
use common::coordinator::zookeeper::model::{Host, Program};
use common::ids::{Epoch, Offset};
use common::queue::Queue;
use engine::event::{Attempt, Event, Failure, GivenUp, Outcome};
use engine::ports::{Processor, SystemClock};
use engine::task::{Budget, Task};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::decode::{Delivered, RecordDecoder};
use crate::delivery::DeliveryMetrics;
use crate::fleet::{Charge, Fleet, Order, Parts};
use crate::group::{self, Group};
use crate::member::Me;
use crate::metrics::Metrics;
use crate::prepare::Faults;

/// How long open attempts may go on once their partition is let go.
const GRACE: Duration = Duration::from_secs(2);

const FILE: &[u8] = br#"{"consumer_groups":[{"group":"g","url":"http://127.0.0.1/","topics":["t"],"failed_sleep":"200ms"}]}"#;

thread_local! {
    static CONFIG: (PusherConfig, GroupConfig) = config();
}

fn config() -> (PusherConfig, GroupConfig) {
    let config = common::config::parse(Role::Standalone, "the model", FILE, &Overrides::default()).unwrap().config;
    (config.pusher, config.groups.into_iter().next().unwrap())
}

pub(super) struct Running {
    drain: CancellationToken,
    ended: Arc<AtomicBool>,
}

impl Program for Running {
    fn start(host: &Host, coordinator: Arc<dyn Coordinator>, queue: Arc<dyn Queue>) -> Self {
        let (pusher, group) = CONFIG.with(Clone::clone);
        let bypass_failed = host.bypasses();
        let group = GroupConfig { bypass_failed, retry_times: u32::from(bypass_failed), ..group };
        let registry = &mut Registry::default();
        let engine = engine::metrics::Metrics::register(registry);
        let delivery = DeliveryMetrics::register(registry);
        let metrics = Metrics::register(registry, engine.clone(), delivery);
        let decoder = RecordDecoder::new(group.serializer, Counter::default());
        let budget = Budget { max_bytes: pusher.max_buffered_bytes };
        let task = Task::new("g", group::options(&group), decoder, Receivers(host.clone()), budget, &engine, Arc::new(SystemClock));
        let (changes, topic_changes) = watch::channel(0);
        let group = Arc::new(Group::new(group, Cluster::follow(queue, changes), coordinator.clone(), Arc::new(task)));
        let me = Me::this_process(&PusherConfig { instance: host.instance().to_owned(), ..pusher });
        let (fleet, handle) = Fleet::new(Parts { coordinator, metrics, grace: GRACE, me, faults: Faults::End, topic_changes });
        let (drain, ended) = (CancellationToken::new(), Arc::<AtomicBool>::default());
        let running = Self { drain: drain.clone(), ended: ended.clone() };
        tokio::spawn(async move {
            handle.order(Order::Serve(vec![Charge { group, prepared: false }])).await;
            // Refused or drained, it is over.
            let _ = fleet.run(drain).await;
            ended.store(true, Ordering::Relaxed);
        });
        running
    }

    fn leave(&self) {
        self.drain.cancel();
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// In the place of HTTP and of who answers.
struct Receivers(Host);

impl Processor<Delivered> for Receivers {
    async fn process(&self, event: &Event<Delivered>, attempt: Attempt) -> Outcome {
        let value = event.payload.stored.value.as_deref().unwrap_or_default();
        let (epoch, offset) = (Epoch(attempt.epoch.0), Offset(event.offset.0));
        match self.0.deliver(event.payload.origin.partition, epoch, offset, value).await {
            true => Outcome::Done,
            false => Outcome::Retry { not_before: None, failure: Failure { reason: "status", code: Some(500), detail: String::new() } },
        }
    }
    async fn bypass(&self, event: &Event<Delivered>, _: &GivenUp) -> Result<(), String> {
        let value = event.payload.stored.value.as_deref().unwrap_or_default();
        let written = self.0.bury(event.payload.origin.partition, Offset(event.offset.0), value).await;
        written.then_some(()).ok_or_else(|| "the dead letter was not written".into())
    }
}

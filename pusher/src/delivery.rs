//! HTTP delivery: one request for one record, and what its answer means (`contract.md` §2).
//!
//! `request` says what is sent, `client` carries it, `answer` says what comes of it.

use std::sync::Arc;
use std::time::Duration;

use common::config::GroupConfig;
use common::coordinator::Lease;
use common::queue::Queue;
use engine::event::{Attempt, Event, Failure, GivenUp, Outcome};
use engine::ports::{Processor, SystemClock, WallClock};
use http::uri::Scheme;
use http::{HeaderMap, Response, StatusCode};
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout_at};

use self::answer::{Beginning, Meaning, Policy};
use self::client::{Broken, Client, Options, Over, Repeat};
use self::metrics::GroupMetrics;
use self::request::Template;
use crate::dead_letter::DeadLetters;
use crate::decode::Delivered;

mod answer;
mod client;
mod key;
mod metrics;
mod reason;
mod request;
mod retry_after;
mod snippet;
mod tls;
mod webhook_id;

pub use self::metrics::DeliveryMetrics;
pub(crate) use self::reason::Reason;
pub use self::tls::{Tls, TlsError};

/// Where both are the same, `connect_timeout` is to be told from `timeout`: an attempt may take this much longer
/// than its connection.
const AFTER_CONNECTING: Duration = Duration::from_millis(5);

/// Delivers the records of one group to its callback URL, over connections of its own: however slow
/// that URL is, it holds up nothing but the group's worker slots.
pub struct Delivery {
    template: Template,
    client: Client,
    policy: Policy,
    timeout: Duration,
    lease: Lease,
    dead_letters: DeadLetters,
    metrics: GroupMetrics,
    clock: SystemClock,
}

impl Delivery {
    /// Must be called inside a tokio runtime. An error only for an https URL whose trusted
    /// certificates cannot be read.
    pub fn new(group: &GroupConfig, queue: Arc<dyn Queue>, lease: Lease, metrics: &DeliveryMetrics, tls: &Tls) -> Result<Self, TlsError> {
        let tls = if group.url.scheme() == Some(&Scheme::HTTPS) { Some(tls.client()?) } else { None };
        let connect_timeout = group.connect_timeout.min(group.timeout);
        let options = Options {
            connect_timeout,
            idle_timeout: group.idle_timeout,
            connection_max_age: group.connection_max_age,
            max_idle_connections: group.worker_num,
        };
        Ok(Self {
            template: Template::new(group),
            client: Client::new(options, tls),
            policy: Policy { success: group.success_status, retry_after_max: group.retry_after_max },
            timeout: group.timeout.max(connect_timeout + AFTER_CONNECTING),
            lease,
            dead_letters: DeadLetters::new(group.group.clone(), group.dead_letter_topic.clone(), queue),
            metrics: metrics.of_group(group.group.as_str()),
            clock: SystemClock,
        })
    }

    /// One attempt, from before its connection to the last byte of its answer.
    async fn attempt(&self, event: &Event<Delivered>, attempt: Attempt, deadline: Instant) -> Attempted {
        let response = match timeout_at(deadline, self.send(event, attempt)).await {
            Ok(Ok(Some(response))) => response,
            Ok(Ok(None)) => return Attempted::Cut,
            Ok(Err(broken)) => return Attempted::Broken(broken),
            Err(_) => return Attempted::Broken(Broken::timed_out(self.timeout)),
        };
        let (head, body) = response.into_parts();
        let mut beginning = Beginning::default();
        let whole = if body.is_end_stream() { Ok(Ok(())) } else { timeout_at(deadline, beginning.read(body)).await };
        let answer = Answer { status: head.status, headers: head.headers, beginning };
        // A failure is known by its status, whatever becomes of its body; a success must be whole.
        match whole {
            Ok(Err(error)) if head.status.is_success() => Attempted::Broken(Broken::within_body(&error)),
            Err(_) if head.status.is_success() => Attempted::Broken(Broken::timed_out(self.timeout)),
            _ => Attempted::Answered(answer),
        }
    }

    /// `None`: the lease was lost before the request could be repeated.
    async fn send(&self, event: &Event<Delivered>, attempt: Attempt) -> Result<Option<Response<Incoming>>, Broken> {
        let request = || self.template.request(event, attempt, self.clock.now());
        match self.client.send(request(), Over::AnyConnection).await {
            Err(Broken { repeat: Repeat::StaleConnection, .. }) => {
                self.metrics.free_retries.inc();
            }
            Err(Broken { repeat: Repeat::AgedConnection, .. }) => {}
            answered => return answered.map(Some),
        }
        if !self.lease.holds() {
            return Ok(None);
        }
        self.client.send(request(), Over::NewConnection).await.map(Some)
    }

    /// What an attempt means to the engine.
    fn outcome(&self, attempted: Attempted) -> Outcome {
        match attempted {
            Attempted::Cut => Outcome::Cut,
            Attempted::Broken(broken) => {
                self.metrics.failed(broken.reason);
                Outcome::Retry { not_before: None, failure: Failure { reason: broken.reason.label(), code: None, detail: broken.detail } }
            }
            Attempted::Answered(Answer { status, headers, beginning }) => {
                match self.policy.meaning(status, &headers, || self.clock.now()) {
                    Meaning::Delivered => {
                        self.metrics.delivered.inc();
                        Outcome::Done
                    }
                    Meaning::Failed { reason, no_earlier_than } => {
                        self.metrics.failed(reason);
                        let failure = Failure { reason: reason.label(), code: Some(status.as_u16()), detail: beginning.describe(status) };
                        Outcome::Retry { not_before: no_earlier_than.map(|wait| Instant::now() + wait), failure }
                    }
                }
            }
        }
    }
}

enum Attempted {
    Answered(Answer),
    Broken(Broken),
    Cut,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    beginning: Beginning,
}

impl Processor<Delivered> for Delivery {
    async fn process(&self, event: &Event<Delivered>, attempt: Attempt) -> Outcome {
        if !self.lease.holds() {
            return Outcome::Cut;
        }
        let measured = Measured::new(&self.metrics);
        let attempted = self.attempt(event, attempt, measured.began + self.timeout).await;
        measured.ended();
        self.outcome(attempted)
    }

    async fn bypass(&self, event: &Event<Delivered>, given_up: &GivenUp) -> Result<(), String> {
        match self.lease.holds() {
            true => self.dead_letters.bury(event, given_up).await,
            false => Err("this process may not write while its lease does not hold".into()),
        }
    }
}

/// Counts an attempt as cut when it is dropped before its end.
struct Measured<'a> {
    metrics: &'a GroupMetrics,
    began: Instant,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Running,
    Ended,
}

impl<'a> Measured<'a> {
    fn new(metrics: &'a GroupMetrics) -> Self {
        Self { metrics, began: Instant::now(), state: State::Running }
    }

    fn ended(mut self) {
        self.state = State::Ended;
        self.metrics.attempt_seconds.observe(self.began.elapsed().as_secs_f64());
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        if self.state == State::Running {
            self.metrics.cut();
        }
    }
}

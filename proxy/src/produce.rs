//! Handing a message to the queue, and waiting for what it says.

use std::sync::Arc;
use std::time::Duration;

use common::queue::{Ack, Produce, ProduceError, Produced};
use common::record::Message;
use tokio::time::{Instant, timeout_at};

use crate::admission::Permit;
use crate::context::Context;
use crate::metrics::{Dialect, Metrics};
use crate::refusal;

/// Waits for the queue at most `produce_timeout`. The message is written, or not, in any case; so
/// what it holds is held until the queue has answered, even if nobody waits for that any more.
pub(crate) async fn write(
    context: &Context,
    message: Message,
    ack: Ack,
    permit: Permit,
    request: (Dialect, Instant),
) -> Result<Produced, ProduceError> {
    let (dialect, began) = request;
    let deadline = Instant::now() + context.produce_timeout;
    let produce = context.queue.produce(message, ack);
    let mut work = Work { left: Some((produce, permit)), metrics: Arc::clone(&context.metrics), dialect };
    let answer = match timeout_at(deadline, work.answer()).await {
        Ok(answer) => answer,
        Err(_) => Err(timed_out(context.produce_timeout)),
    };
    work.is_over();
    context.metrics.handed_over(refusal::outcome(&answer));
    context.metrics.duration_seconds.observe(began.elapsed().as_secs_f64());
    answer
}

pub(crate) fn timed_out(produce_timeout: Duration) -> ProduceError {
    ProduceError::MaybeWritten(format!("no acknowledgement within produce_timeout, {produce_timeout:?}"))
}

/// Holds what the message holds until the queue has let go of it. Nobody is told any more.
pub(crate) fn outlive(produce: Produce, held: impl Send + 'static) {
    detach(async move {
        let _ = produce.await;
        drop(held);
    });
}

/// Of a process that ends, nothing outlives anything.
pub(crate) fn detach(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

/// A message with the queue. Dropped before the answer, as when the client went away, it sees to
/// it that the outcome is counted all the same.
struct Work {
    left: Option<(Produce, Permit)>,
    metrics: Arc<Metrics>,
    dialect: Dialect,
}

impl Work {
    async fn answer(&mut self) -> Result<Produced, ProduceError> {
        let Some((produce, _)) = &mut self.left else { return std::future::pending().await };
        let answer = produce.await;
        self.left = None;
        answer
    }

    /// With or without an answer, the request is counted by whoever waited for it.
    fn is_over(&mut self) {
        if let Some((produce, permit)) = self.left.take() {
            outlive(produce, permit);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let Some((produce, permit)) = self.left.take() else { return };
        let (metrics, dialect) = (Arc::clone(&self.metrics), self.dialect);
        detach(async move {
            let answer = produce.await;
            metrics.handed_over(refusal::outcome(&answer));
            let status = answer.map_or_else(|error| refusal::of_produce(&error).kind.status(), |_| http::StatusCode::OK);
            metrics.answered(dialect, status);
            drop(permit);
        });
    }
}

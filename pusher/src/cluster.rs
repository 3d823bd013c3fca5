//! One queue, and the topics that it has, as far as is known.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use common::ids::Topic;
use common::queue::shared::SharedReaders;
use common::queue::{Queue, TopicInfo};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

/// No topic appears or changes unseen for longer than this, even without a hint.
const TICK: Duration = Duration::from_secs(10);
/// A look that failed is tried again after this.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// However often hints come, looks are at least this far apart.
const MIN_APART: Duration = Duration::from_millis(5);
/// Groups that are prepared on one queue at one time: their births share the coordinator's transactions.
const MAX_PREPARING: usize = 64;

pub(crate) type Topics = Arc<HashMap<Topic, TopicInfo>>;

/// Looked at by a task of its own, so that a queue that does not answer holds up nobody who does
/// not use it.
pub(crate) struct Cluster {
    pub(crate) queue: Arc<dyn Queue>,
    /// Groups that read the same partition share what is fetched.
    pub(crate) readers: SharedReaders,
    pub(crate) preparing: Semaphore,
    topics: watch::Receiver<Option<Topics>>,
    _stop: DropGuard,
}

impl Cluster {
    /// Must be called inside a tokio runtime. `changes` grows whenever the topics are others.
    pub(crate) fn follow(queue: Arc<dyn Queue>, changes: watch::Sender<u64>) -> Arc<Self> {
        let (known, topics) = watch::channel(None);
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(follow(queue.clone(), known, changes)));
        let readers = SharedReaders::new(queue.clone());
        Arc::new(Self { queue, readers, preparing: Semaphore::new(MAX_PREPARING), topics, _stop: stop.drop_guard() })
    }

    /// As last read; `None` until they were read once.
    pub(crate) fn topics(&self) -> Option<Topics> {
        self.topics.borrow().clone()
    }
}

async fn follow(queue: Arc<dyn Queue>, known: watch::Sender<Option<Topics>>, changed: watch::Sender<u64>) {
    let mut hints = queue.changes();
    let mut trouble = None;
    loop {
        let again = match queue.topics().await {
            Ok(topics) => {
                if let Some(trouble) = trouble.take() {
                    info!(trouble, "the topics of the queue can be read again");
                }
                let topics: Topics = Arc::new(topics.into_iter().map(|info| (info.topic.clone(), info)).collect());
                let others = |known: &mut Option<Topics>| {
                    let others = known.as_ref() != Some(&topics);
                    if others {
                        *known = Some(topics);
                    }
                    others
                };
                if known.send_if_modified(others) {
                    changed.send_modify(|changes| *changes += 1);
                }
                TICK
            }
            Err(error) => {
                let error = error.to_string();
                if trouble.as_ref() != Some(&error) {
                    warn!(
                        error,
                        "the topics of the queue cannot be read, which is tried every second; its groups go on with what they own"
                    );
                }
                trouble = Some(error);
                TRY_AGAIN
            }
        };
        let not_before = Instant::now() + MIN_APART;
        tokio::select! {
            biased;
            Ok(()) = hints.changed() => {}
            () = tokio::time::sleep(again) => {}
        }
        tokio::time::sleep_until(not_before).await;
    }
}

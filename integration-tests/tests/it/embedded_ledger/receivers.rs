//! Three groups: one whose messages often fail at first, one that is slow, one that now and then refuses everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use integration_tests::gateway::group;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::request::Seen;
use serde_json::{Value, json};

use super::{COMMIT_INTERVAL, TOPIC};

pub(super) const GROUPS: [&str; 3] = ["failing", "slow", "refusing"];

pub(super) struct Callback {
    pub(super) group: &'static str,
    receiver: Receiver,
}

pub(super) struct Callbacks {
    pub(super) all: Vec<Callback>,
    healed: Arc<AtomicBool>,
}

impl Callbacks {
    pub(super) async fn start() -> Self {
        let (healed, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let mut all = Vec::new();
        for group in GROUPS {
            let healed = healed.clone();
            let script = move |seen: &Seen| if healed.load(Ordering::Relaxed) { Answer::Status(200) } else { answer(group, seen, began) };
            all.push(Callback { group, receiver: Receiver::start(script).await });
        }
        Self { all, healed }
    }

    /// From now on every one answers 200 at once.
    pub(super) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    pub(super) fn configured(&self) -> Vec<Value> {
        let policy = json!({
            "worker_num": 16, "timeout": "2s", "retry_times": 2, "failed_sleep": "200ms",
            "retry_backoff": {"initial": "50ms", "max": "300ms"}, "commit_interval": format!("{}ms", COMMIT_INTERVAL.as_millis()),
        });
        self.all.iter().map(|callback| group(callback.group, TOPIC, &callback.receiver.url(), &policy)).collect()
    }
}

impl Callback {
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.receiver.seen()
    }
}

fn answer(group: &str, seen: &Seen, began: Instant) -> Answer {
    match group {
        // Some take several rounds.
        "failing" if seen.offset().is_multiple_of(7) && seen.attempt() < seen.offset() % 5 => Answer::Status(500),
        "slow" => Answer::Status(200).after(Duration::from_millis(seen.offset() * 37 % 40)),
        "refusing" if began.elapsed().as_millis() % 4_000 < 700 => Answer::Status(503),
        _ => Answer::Status(200),
    }
}

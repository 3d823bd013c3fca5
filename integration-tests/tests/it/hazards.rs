//! What went wrong in earlier drafts of the protocol, each on real servers or, where only a model can show it, in the
//! model.
//!
//! | hazard | shown by |
//! |---|---|
//! | replay to exactly the old value | `zookeeper::conformance` (`a_replay_to_exactly_the_old_value_is_one`), `zookeeper::interference` (a foreign set to what stands) |
//! | crash between two writes | the model of `pusher` (`a_pair_that_is_not_written_at_once_is_caught`: its histories crash anywhere), `zookeeper::conformance` (`a_crash_keeps_what_was_committed`) |
//! | an old tool moving a cursor forward and back | `zookeeper::interference` |
//! | topic re-created over a stuck head with a done set above it | `topics` |
//! | group pointed at another cluster | `topics`, `zookeeper::interference` |
//! | first message of a new topic with `initial_from_oldest: false` | `topics`, `zookeeper::conformance` |
//! | crash half-way through the first claims | `zookeeper::conformance` (`a_crash_half_way_through_the_first_claims_loses_no_start`) |
//! | a partition added while the fleet was down | `topics` |
//! | two proxies with clocks 40 ms apart and a delay | `times` |
//! | partition lost and regained while an attempt hangs | `moves`, `cluster::cancelled`, `pusher/tests/whole/fleet.rs` |
//! | `processing_timeout` with `bypass_failed: false` and a receiver that heals | `times` |
//! | one dead group with a thousand partitions | `sizes` |
//! | a record larger than the bound | `sizes` |
//! | a dead letter too large for its topic | `sizes` |
//! | a 15 s freeze that fires every timer at once | `times` |
//! | two processes with one instance name | `zookeeper::fleet` |
//! | own leftover nodes after expiry | `zookeeper::fleet`, `zookeeper::session` |
//! | a group that lists a topic on one pusher only | `moves` |
//! | replay of an idle and of a paused partition | `replays` |
//! | two replays 100 ms apart with `kill -9` of the owner and of the answering pusher | `replays` |
//! | garbage in a cursor node | `zookeeper::interference`, `zookeeper::conformance` |
//! | nodes deleted under traffic | `zookeeper::interference` |
//! | all `ZooKeeper` servers restarted with 10,000 partitions owned | `zookeeper::limits` |

use std::time::Duration;

use bytes::Bytes;
use integration_tests::cluster::{Cluster, TAKEN_OVER};
use integration_tests::gateway::{Gateway, Setup, group};
use integration_tests::ledger::{Acked, Verdict, judge};
use integration_tests::producer::Producer;
use integration_tests::receiver::Receiver;
use integration_tests::wait;
use serde_json::{Value, json};

mod moves;
mod replays;
mod sizes;
mod times;
mod topics;

const MS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(30);

/// A receiver of the group `g`, and the servers behind it.
struct Scene {
    cluster: Cluster,
    topic: String,
    receiver: Receiver,
    /// Of the group.
    policy: Value,
}

impl Scene {
    async fn new(partitions: i32, receiver: Receiver, policy: Value) -> Self {
        let cluster = Cluster::shared().await;
        let topic = cluster.topic("hazard", partitions).await;
        Self { cluster, topic, receiver, policy }
    }

    fn setup(&self, instance: &str) -> Setup {
        self.cluster.pusher(instance, [group("g", &self.topic, &self.receiver.url(), &self.policy)])
    }

    async fn pusher(&self, instance: &str) -> Gateway {
        let pusher = self.setup(instance).start().await;
        self.cluster_has_owner(instance).await;
        pusher
    }

    /// Waits until it owns something.
    async fn cluster_has_owner(&self, instance: &str) {
        let owns = || async { self.cluster.owners("g", &self.topic).values().any(|owner| owner == instance).then_some(()) };
        wait::until(&format!("{instance} to own something"), TAKEN_OVER + PATIENCE, owns).await;
    }

    /// By a proxy of its own: `n` messages from `first` on, each its number, of so many keys.
    async fn post(&self, cluster: &Cluster, numbers: std::ops::Range<usize>, keys: usize) -> Vec<Acked> {
        let proxy = cluster.proxy().start().await;
        let producer = Producer::new(proxy.api, &self.topic);
        let mut acked = Vec::new();
        for n in numbers {
            let key = format!("k{}", n % keys);
            // The proxy may learn late of a topic that was made just now.
            let post = || async { producer.plain(Some(&key), &[], Bytes::from(n.to_string())).await.ok() };
            acked.push(wait::until("a message to be taken", PATIENCE, post).await);
        }
        acked
    }

    async fn until_delivered(&self, acked: &[Acked]) -> Verdict {
        wait::until("all of it to be delivered", PATIENCE, || async {
            self.receiver.look(|seen| judge(acked, seen).lost.is_empty()).then_some(())
        })
        .await;
        judge(acked, &self.receiver.seen())
    }

    async fn settle(&self, acked: &[Acked]) -> Verdict {
        let verdict = self.until_delivered(acked).await;
        self.cluster.until_cursors_at_end("g", &self.topic, PATIENCE).await;
        verdict
    }
}

/// `POST /v1/<path>`; the answer of a success.
async fn operate(gateway: &Gateway, path: &str, body: &Value) -> Option<Value> {
    let post = reqwest::Client::new().post(format!("http://{}/v1/{path}", gateway.admin)).json(body).send().await.ok()?;
    if post.status().is_success() { post.json().await.ok() } else { None }
}

//! Faults of Kafka's brokers, one broker at a time: two of three must have each message.

use std::time::Duration;

use tokio::sync::Mutex;

use super::faults::{Deed, Kind};
use super::lane::Lane;
use crate::kafka::trio::{SIZE, Trio};
use crate::relay::Flow;

pub(super) async fn run(mut lane: Lane, trio: &Mutex<Trio>) {
    while lane.next().await {
        let index = lane.below(SIZE);
        let deed = lane.one_of(&[Deed::Kill, Deed::Terminate, Deed::Freeze, Deed::CutOff, Deed::Reset, Deed::Slow]);
        let journal = lane.journal.clone();
        let open = journal.begin(Kind::Broker, deed, &(index + 1).to_string());
        match deed {
            Deed::Kill => {
                trio.lock().await.kill(index);
                lane.hold(1.0, 6.0).await;
                trio.lock().await.spawn(index);
            }
            Deed::Terminate => {
                let patience = Duration::from_secs(30);
                // It may wait for others to take its partitions over.
                if tokio::time::timeout(patience, async { trio.lock().await.stop(index).await }).await.is_err() {
                    trio.lock().await.kill(index);
                }
                trio.lock().await.spawn(index);
            }
            Deed::Freeze => {
                trio.lock().await.freeze(index);
                lane.hold(1.0, 8.0).await;
                trio.lock().await.thaw(index);
            }
            Deed::CutOff => flow(&mut lane, trio, index, Flow::Hold).await,
            Deed::Slow => flow(&mut lane, trio, index, Flow::Delay(Duration::from_millis(50))).await,
            _ => trio.lock().await.reset(index),
        }
        drop(open);
        heal(trio, index).await;
    }
}

async fn flow(lane: &mut Lane, trio: &Mutex<Trio>, index: usize, flow: Flow) {
    trio.lock().await.relay(index, flow);
    lane.hold(1.0, 8.0).await;
    trio.lock().await.relay(index, Flow::Pass);
}

/// The next one is not to find this one still away.
async fn heal(trio: &Mutex<Trio>, index: usize) {
    let mut trio = trio.lock().await;
    if !trio.runs(index) {
        trio.spawn(index);
    }
    trio.until_served_by(SIZE).await;
}

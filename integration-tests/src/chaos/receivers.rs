//! Faults of receivers, and of the way to them.

use std::time::Duration;

use super::faults::{Deed, Kind};
use super::lane::Lane;
use super::world::Callback;
use crate::relay::Flow;

pub(super) async fn run(mut lane: Lane, callbacks: &[Callback]) {
    while lane.next().await {
        let callback = &callbacks[lane.below(callbacks.len())];
        let deed = [Deed::Slow, Deed::Reset, Deed::CutOff, Deed::Refuse][lane.below(4)];
        let journal = lane.journal.clone();
        let _open = journal.begin(Kind::Receiver, deed, callback.group);
        match deed {
            Deed::Slow => callback.relay.both(Flow::Delay(Duration::from_millis(300))),
            Deed::CutOff => callback.relay.both(Flow::Hold),
            Deed::Refuse => callback.refuse(true),
            _ => callback.relay.reset(),
        }
        lane.hold(0.5, 6.0).await;
        callback.refuse(false);
        callback.relay.both(Flow::Pass);
    }
}

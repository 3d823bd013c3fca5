//! Faults of receivers, and of the way to them.

use std::time::Duration;

use super::faults::{Deed, Kind};
use super::lane::Lane;
use super::world::Callback;
use crate::relay::Flow;

const DEEDS: [Deed; 6] = [Deed::Kill, Deed::Freeze, Deed::CutOff, Deed::Reset, Deed::Slow, Deed::Refuse];

pub(super) async fn run(mut lane: Lane, callbacks: &mut [Callback]) {
    while lane.next().await {
        let index = lane.below(callbacks.len());
        let callback = &mut callbacks[index];
        let deed = lane.one_of(&DEEDS);
        let journal = lane.journal.clone();
        let _open = journal.begin(Kind::Receiver, deed, callback.group);
        match deed {
            Deed::Kill => callback.process.kill(),
            Deed::Freeze => callback.process.freeze(),
            Deed::CutOff => callback.relay.both(Flow::Hold),
            Deed::Slow => callback.relay.both(Flow::Delay(Duration::from_millis(300))),
            Deed::Refuse => callback.refuse(true),
            _ => callback.relay.reset(),
        }
        lane.hold(0.5, 6.0).await;
        match deed {
            Deed::Kill => callback.process.spawn().await,
            Deed::Freeze => callback.process.thaw(),
            Deed::CutOff | Deed::Slow => callback.relay.both(Flow::Pass),
            _ => callback.refuse(false),
        }
    }
}

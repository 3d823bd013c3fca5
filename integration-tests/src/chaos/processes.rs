//! Faults of proxies and pushers.

use std::time::Duration;

use super::faults::{Deed, Kind};
use super::lane::Lane;
use super::world::Member;
use crate::gateway::Gateway;
use crate::relay::Flow;

/// More than `drain_timeout`.
const EXIT_WITHIN: Duration = Duration::from_secs(40);

pub(super) async fn break_proxies(mut lane: Lane, proxies: &mut [Gateway]) {
    while lane.next().await {
        let index = lane.below(proxies.len());
        let deed = [Deed::Kill, Deed::Terminate, Deed::Freeze][lane.below(3)];
        let journal = lane.journal.clone();
        let _open = journal.begin(Kind::Proxy, deed, &(index + 1).to_string());
        restart_or_thaw(&mut lane, &mut proxies[index], deed, 4.0).await;
    }
}

/// The last of the pushers comes and goes; the others are only broken.
pub(super) async fn break_pushers(mut lane: Lane, pushers: &mut [Member]) {
    let spare = pushers.len() - 1;
    while lane.next().await {
        let index = lane.below(pushers.len());
        let journal = lane.journal.clone();
        let whom = (index + 1).to_string();
        if index == spare {
            come_or_go(&mut pushers[spare].gateway, &journal, &whom).await;
            continue;
        }
        let deed = [Deed::Kill, Deed::Terminate, Deed::Freeze, Deed::CutOff, Deed::Reset][lane.below(5)];
        let _open = journal.begin(Kind::Pusher, deed, &whom);
        let Member { gateway, relays } = &mut pushers[index];
        match deed {
            Deed::CutOff => {
                relays.iter().for_each(|relay| relay.both(Flow::Hold));
                lane.hold(1.0, 14.0).await;
                relays.iter().for_each(|relay| relay.both(Flow::Pass));
            }
            Deed::Reset => relays.iter().for_each(crate::relay::Relay::reset),
            deed => restart_or_thaw(&mut lane, gateway, deed, 14.0).await,
        }
    }
}

async fn come_or_go(spare: &mut Gateway, journal: &super::faults::Journal, whom: &str) {
    if spare.runs() {
        let _open = journal.begin(Kind::Pusher, Deed::Remove, whom);
        spare.terminate(EXIT_WITHIN).await;
    } else {
        let _open = journal.begin(Kind::Pusher, Deed::Add, whom);
        spare.spawn();
    }
}

async fn restart_or_thaw(lane: &mut Lane, gateway: &mut Gateway, deed: Deed, longest_freeze: f64) {
    match deed {
        Deed::Kill => {
            gateway.kill();
            lane.hold(0.0, 3.0).await;
            gateway.spawn();
        }
        Deed::Terminate => {
            gateway.terminate(EXIT_WITHIN).await;
            gateway.spawn();
        }
        _ => {
            gateway.freeze();
            lane.hold(0.5, longest_freeze).await;
            gateway.thaw();
        }
    }
}

//! Faults of proxies and pushers.

use std::time::Duration;

use super::faults::{Deed, Journal, Kind};
use super::lane::Lane;
use super::world::{Entrance, Member, Way};
use crate::gateway::Gateway;
use crate::relay::Flow;

/// More than `drain_timeout`.
const EXIT_WITHIN: Duration = Duration::from_secs(40);

pub(super) async fn break_proxies(mut lane: Lane, proxies: &mut [Entrance]) {
    while lane.next().await {
        let index = lane.below(proxies.len());
        let deed = lane.one_of(&[Deed::Kill, Deed::Terminate, Deed::Freeze, Deed::CutOff, Deed::Reset, Deed::Slow]);
        let journal = lane.journal.clone();
        let _open = journal.begin(Kind::Proxy, deed, &(index + 1).to_string());
        let Entrance { gateway, way } = &mut proxies[index];
        match deed {
            Deed::Reset => way.reset(),
            Deed::CutOff | Deed::Slow => {
                way.both(if deed == Deed::Slow { Flow::Delay(Duration::from_millis(300)) } else { Flow::Hold });
                lane.hold(0.5, 6.0).await;
                way.both(Flow::Pass);
            }
            deed => restart_or_thaw(&mut lane, gateway, deed, 4.0).await,
        }
    }
}

/// Cut off is from ZooKeeper; the others concern the ways to both.
const PUSHER_DEEDS: [Deed; 7] = [Deed::Kill, Deed::Terminate, Deed::Freeze, Deed::CutOff, Deed::CutOffKafka, Deed::Reset, Deed::Slow];

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
        let deed = lane.one_of(&PUSHER_DEEDS);
        let _open = journal.begin(Kind::Pusher, deed, &whom);
        let Member { gateway, ways, to_kafka } = &mut pushers[index];
        let all = || ways.iter().chain(&*to_kafka);
        match deed {
            Deed::CutOff => hold(&mut lane, Flow::Hold, ways.iter()).await,
            Deed::CutOffKafka => hold(&mut lane, Flow::Hold, to_kafka.iter()).await,
            Deed::Slow => hold(&mut lane, Flow::Delay(Duration::from_millis(200)), all()).await,
            Deed::Reset => all().for_each(|way| way.reset()),
            deed => restart_or_thaw(&mut lane, gateway, deed, 14.0).await,
        }
    }
}

async fn hold(lane: &mut Lane, flow: Flow, ways: impl Iterator<Item = &Way> + Clone) {
    ways.clone().for_each(|way| way.both(flow));
    lane.hold(1.0, 14.0).await;
    ways.for_each(|way| way.both(Flow::Pass));
}

async fn come_or_go(spare: &mut Gateway, journal: &Journal, whom: &str) {
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

//! Faults of ZooKeeper's servers, one at a time.
//!
//! One that is cut off from the others still serves its clients what it has, until it notices. Its votes may get through:
//! if it led, it may be elected once more, and nobody leads until it can be reached.

use std::time::Duration;

use super::faults::{Deed, Kind};
use super::lane::Lane;
use super::world::Way;
use crate::relay::Flow;
use crate::zookeeper::ZooKeeper;

pub(super) const SIZE: usize = 3;

/// `ways` are those of every pusher to each server.
pub(super) async fn run(mut lane: Lane, ensemble: &mut ZooKeeper, ways: &[[Way; SIZE]]) {
    while lane.next().await {
        let index = lane.below(SIZE);
        let deed = lane.one_of(&[Deed::Kill, Deed::Terminate, Deed::Freeze, Deed::CutOff, Deed::CutOffPeers, Deed::Reset, Deed::Slow]);
        let journal = lane.journal.clone();
        let _open = journal.begin(Kind::ZooKeeper, deed, &(index + 1).to_string());
        let to_it = || ways.iter().map(|ways| &ways[index]);
        match deed {
            Deed::Kill => {
                ensemble.kill(index);
                lane.hold(0.0, 8.0).await;
                ensemble.restart(index).await;
            }
            Deed::Terminate => {
                ensemble.stop(index).await;
                ensemble.restart(index).await;
            }
            Deed::Freeze => {
                ensemble.freeze(index);
                lane.hold(1.0, 9.0).await;
                ensemble.thaw(index);
            }
            Deed::CutOffPeers => {
                ensemble.part(index, Flow::Hold);
                lane.hold(3.0, 9.0).await;
                ensemble.part(index, Flow::Pass);
            }
            Deed::Reset => to_it().for_each(|way| way.reset()),
            deed => {
                let flow = if deed == Deed::Slow { Flow::Delay(Duration::from_millis(100)) } else { Flow::Hold };
                to_it().for_each(|way| way.both(flow));
                lane.hold(1.0, 9.0).await;
                to_it().for_each(|way| way.both(Flow::Pass));
            }
        }
    }
}

//! Faults of ZooKeeper's servers, one at a time.

use super::faults::{Deed, Kind};
use super::lane::Lane;
use crate::zookeeper::ZooKeeper;

pub(super) const SIZE: usize = 3;

pub(super) async fn run(mut lane: Lane, ensemble: &mut ZooKeeper) {
    while lane.next().await {
        let index = lane.below(SIZE);
        let deed = [Deed::Kill, Deed::Freeze][lane.below(2)];
        let journal = lane.journal.clone();
        let _open = journal.begin(Kind::ZooKeeper, deed, &(index + 1).to_string());
        if deed == Deed::Freeze {
            ensemble.freeze(index);
            lane.hold(1.0, 9.0).await;
            ensemble.thaw(index);
        } else {
            ensemble.kill(index);
            lane.hold(0.0, 8.0).await;
            ensemble.restart(index).await;
        }
    }
}

//! Every promise of the seam, on both kinds of clusters.

use super::{Kafka, Version, queue};

async fn on(version: Version) -> (std::sync::Arc<dyn common::queue::Queue>, std::sync::Arc<Kafka>) {
    let kafka = Kafka::shared(version).await;
    (queue(&kafka), kafka)
}

mod four {
    common::queue_conformance!(|| super::on(super::Version::Four));
}

mod three_with_zookeeper {
    common::queue_conformance!(|| super::on(super::Version::ThreeWithZooKeeper));
}

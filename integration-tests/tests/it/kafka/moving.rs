//! Brokers that are found where they register.

use common::coordinator::zookeeper::{Ensemble, registered_brokers};
use common::ids::{Epoch, Offset, Partition};
use common::queue::NotWritten;
use common::queue::kafka::ReadBrokers;

use super::*;

fn registered(kafka: &Kafka) -> Options {
    let ensemble = Ensemble::parse(&kafka.zookeeper().connect_string()).unwrap();
    let what = format!("{ensemble}/brokers/ids");
    let read: ReadBrokers = Arc::new(move || {
        let ensemble = ensemble.clone();
        Box::pin(async move { registered_brokers(&ensemble, None, "PLAINTEXT").await.map_err(|error| error.to_string()) })
    });
    Options { produce_timeout: Duration::from_secs(4), ..Options::new(BrokerSource::Registered { what, read }) }
}

#[tokio::test]
async fn a_broker_that_moved_is_found_again() {
    let mut kafka = Kafka::start(Version::ThreeWithZooKeeper).await;
    let queue = start(registered(&kafka));
    let topic = fresh("moved");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    until_well(&queue).await;
    assert_eq!(produce(&queue, message(&topic, "before")).await.unwrap().offset, Offset(0));
    let mut reader = queue.open(&topic, Partition(0), Offset(0), Epoch(1)).await.unwrap();
    read_to(&mut *reader, 1).await;
    let before = kafka.brokers();
    kafka.stop().await;
    until_missing(&queue, &before).await;
    kafka.restart_elsewhere().await;
    assert_ne!(kafka.brokers(), before);
    until_produced(&queue, message(&topic, "after")).await;
    assert_eq!(next(&mut *reader).await.records.len(), 1);
    until_well(&queue).await;
}

#[tokio::test]
async fn without_zookeeper_it_starts_says_so_and_works_when_zookeeper_is_back() {
    let kafka = Kafka::start(Version::ThreeWithZooKeeper).await;
    let topic = fresh("zookeeper-away");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    kafka.zookeeper().freeze(0);
    let queue = start(registered(&kafka));
    until_missing(&queue, &kafka.zookeeper().connect_string()).await;
    let refused = timeout(Duration::from_secs(4), queue.produce(message(&topic, "x"), Ack::All)).await.unwrap();
    let said = matches!(&refused, Err(ProduceError::NotWritten(NotWritten::Unavailable, why)) if why.contains(&kafka.zookeeper().connect_string()));
    assert!(said, "{refused:?}");
    kafka.zookeeper().thaw(0);
    until_well(&queue).await;
    until_produced(&queue, message(&topic, "x")).await;
}

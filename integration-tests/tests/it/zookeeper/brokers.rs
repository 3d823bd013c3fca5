//! Kafka's brokers as they register themselves, and what is said where none has.

use std::time::{Duration, Instant};

use common::coordinator::zookeeper::{BrokersError, Ensemble, registered_brokers};
use integration_tests::kafka::{Kafka, Version};
use integration_tests::ports;
use integration_tests::zookeeper::tool::Tool;

use super::World;

fn ensemble(text: &str) -> Ensemble {
    Ensemble::parse(text).unwrap()
}

#[tokio::test]
async fn a_kafka_that_registers_itself_is_found_by_the_protocol_that_it_speaks() {
    let kafka = Kafka::shared(Version::ThreeWithZooKeeper).await;
    let ensemble = ensemble(&kafka.zookeeper().connect_string());
    for protocol in ["plaintext", "PLAINTEXT"] {
        assert_eq!(registered_brokers(&ensemble, None, protocol).await, Ok(vec![kafka.brokers()]));
    }
    let missing = registered_brokers(&ensemble, None, "sasl_ssl").await.unwrap_err().to_string();
    assert!(missing.contains(&format!("SASL_SSL; there is PLAINTEXT (PLAINTEXT://{})", kafka.brokers())), "{missing}");
}

#[tokio::test]
async fn a_path_that_nobody_registered_at_is_named_with_what_there_is() {
    let world = World::fresh().await;
    let mut tool = world.tool();
    tool.put(&world.path("/kafka-eu"), "");
    let wrong = ensemble(&format!("{}{}", world.servers.connect_string(), world.path("/kafka")));
    let error = registered_brokers(&wrong, None, "plaintext").await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, BrokersError::NoPath { .. }), "{text}");
    assert!(
        text.contains(&world.path("/kafka/brokers/ids is missing")) && text.contains(&format!("{} has kafka-eu", world.chroot)),
        "{text}"
    );
    assert_eq!(tool.children(&world.chroot), ["kafka-eu"], "nothing is created");
    tool.put(&world.path("/kafka/brokers/ids"), "");
    assert!(matches!(registered_brokers(&wrong, None, "plaintext").await, Err(BrokersError::NoBroker { .. })));
}

#[tokio::test]
async fn without_servers_the_answer_comes_in_time() {
    let start = Instant::now();
    let nowhere = ensemble(&ports::free().to_string());
    assert!(matches!(registered_brokers(&nowhere, None, "plaintext").await, Err(BrokersError::Unavailable { .. })));
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
}

/// The connection that the brokers are read on does not stay.
#[tokio::test]
async fn nothing_stays_connected() {
    let zookeeper = integration_tests::zookeeper::ZooKeeper::start().await;
    let ensemble = ensemble(&format!("{}/none", zookeeper.connect_string()));
    let alive = async || {
        zookeeper.ask(0, "mntr").await.unwrap().lines().find_map(|line| line.strip_prefix("zk_global_sessions\t")?.parse::<u32>().ok())
    };
    drop(Tool::connect(zookeeper.addr(0)));
    for _ in 0..3 {
        assert!(registered_brokers(&ensemble, None, "plaintext").await.is_err());
    }
    integration_tests::wait::until("no session is left", Duration::from_secs(3), async || (alive().await == Some(0)).then_some(())).await;
}

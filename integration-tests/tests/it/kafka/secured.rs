//! A broker that asks who one is, behind TLS.

use std::sync::Weak;
use std::time::Instant;

use common::ids::{Epoch, Offset, Partition};
use common::queue::NotWritten;
use integration_tests::gateway;
use integration_tests::kafka::Setup;
use integration_tests::kafka::security::{MECHANISMS, PASSWORD, Security};
use integration_tests::producer::Producer;
use serde_json::json;

use super::*;

/// For the tests of this file that run at a time.
async fn secured() -> Arc<Kafka> {
    static SHARED: tokio::sync::Mutex<Weak<Kafka>> = tokio::sync::Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(kafka) = shared.upgrade() {
        return kafka;
    }
    let setup = Setup { security: Some(Security::new()), ..Setup::default() };
    let kafka = Arc::new(Kafka::start_with(Version::Four, setup).await);
    *shared = Arc::downgrade(&kafka);
    kafka
}

fn with(kafka: &Kafka, mechanism: &str) -> Options {
    let security = kafka.security();
    let properties = security.properties(mechanism);
    Options { properties, produce_timeout: Duration::from_secs(4), ..at(security.addr().to_string()) }
}

#[tokio::test]
async fn every_mechanism_lets_in() {
    let kafka = secured().await;
    let topic = fresh("let-in");
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    for (offset, mechanism) in (0..).zip(MECHANISMS) {
        let queue = start(with(&kafka, mechanism));
        assert_eq!(produce(&queue, message(&topic, mechanism)).await.unwrap().offset, Offset(offset), "{mechanism}");
        let mut reader = queue.open(&topic, Partition(0), Offset(offset), Epoch(1)).await.unwrap();
        assert_eq!(read_to(&mut *reader, offset + 1).await[0].payload.value.as_deref(), Some(mechanism.as_bytes()));
        until_well(&queue).await;
        // By an administrator's client of its own.
        assert!(queue.delete_topic(&fresh("not-there")).await.is_ok_and(|there| !there));
    }
}

/// Refused in time, with this in the reason; and `missing` has it, too.
async fn refused(queue: &KafkaQueue, reason: &str) {
    let refused = timeout(Duration::from_secs(4), queue.produce(message(&fresh("refused"), "x"), Ack::All)).await.unwrap();
    let said = matches!(&refused, Err(ProduceError::NotWritten(NotWritten::Unavailable, why)) if why.contains(reason));
    assert!(said, "{refused:?}");
    println!("{}", until_missing(queue, reason).await);
}

/// One after the other, since the broker's log says how often each was tried.
#[tokio::test]
async fn what_is_wrong_is_said_precisely_in_time_and_tried_again_at_leisure() {
    let kafka = secured().await;
    let other_authority = kafka.security().other_authority().to_str().unwrap().to_owned();
    let at = kafka.security().addr().to_string();
    let cases = [
        ("PLAIN", "sasl.password", "a wrong one", "uthentication failed"),
        ("SCRAM-SHA-256", "sasl.password", "a wrong one", "uthentication failed"),
        ("SCRAM-SHA-512", "sasl.username", "nobody", "uthentication failed"),
        ("PLAIN", "security.protocol", "SASL_PLAINTEXT", &at),
        ("PLAIN", "ssl.ca.location", &other_authority, "certificate verify failed"),
    ];
    for (mechanism, name, value, reason) in cases {
        let mut options = with(&kafka, mechanism);
        options.properties.insert(name.into(), value.into());
        let (before, began) = (tries(&kafka), Instant::now());
        let queue = start(options);
        refused(&queue, reason).await;
        // While it is closed, the client asks for the group's coordinator without a pause.
        let (tries, took) = (tries(&kafka) - before, began.elapsed());
        println!("{mechanism} with {name}={value}: {tries} tries in {took:?}");
        // By two clients, each four times a second at most; and those of the other tests of this file.
        assert!((1..=60).contains(&tries), "{name}: {tries} tries in {took:?}");
    }
}

/// On the real binary, with the topic to be created over the same settings.
#[tokio::test]
async fn the_proxy_hands_its_properties_on() {
    let kafka = secured().await;
    let proxy = |password: &str| {
        let mut properties = kafka.security().properties("SCRAM-SHA-512");
        properties.insert("sasl.password".into(), password.into());
        let queue = json!({"kafka": {"brokers": [kafka.security().addr().to_string()], "properties": properties}});
        let setup = gateway::Setup { role: gateway::Role::Proxy, ..gateway::Setup::default() };
        setup.field("queue", queue).proxy("auto_create_topics", json!(true))
    };
    let gateway = proxy(PASSWORD).start().await;
    let acked = Producer::new(gateway.api, fresh("handed-on").as_str()).plain(Some("k"), &[], "x".into()).await.unwrap();
    assert_eq!(acked.offset, 0);
    let shut_out = proxy("a wrong one").spawn();
    shut_out.until_missing("uthentication failed", PATIENCE).await;
    assert!(!shut_out.log().contains("a wrong one"), "the password is in the log");
}

fn tries(kafka: &Kafka) -> usize {
    kafka.log().lines().filter(|line| line.contains("Failed authentication")).count()
}

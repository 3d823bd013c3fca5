//! Topics that come into being with their first message, where that is wanted.

use common::ids::Offset;
use common::queue::NotWritten;

use super::*;

fn creating(kafka: &Kafka) -> Options {
    Options { auto_create_topics: true, produce_timeout: Duration::from_secs(10), ..options(kafka) }
}

#[tokio::test]
async fn a_missing_topic_is_created_and_its_messages_keep_their_order() {
    let kafka = Kafka::shared(Version::Four).await;
    let (queue, metrics) = start_counted(creating(&kafka));
    let topic = fresh("created");
    let writes: Vec<_> = (0..20).map(|n| queue.produce(message(&topic, n.to_string()), Ack::All)).collect();
    for (offset, write) in (0..).zip(writes) {
        assert_eq!(timeout(Duration::from_secs(10), write).await.unwrap().unwrap().offset, Offset(offset));
    }
    // As many as the broker makes by default.
    assert_eq!(queue.topic(&topic).await.unwrap().unwrap().partitions, 1);
    assert_eq!(counted(&metrics, "mqgate_kafka_topic_creations_total", "created"), 1.0);
}

#[tokio::test]
async fn a_topic_that_kafka_will_not_have_is_refused_for_good() {
    let kafka = Kafka::shared(Version::Four).await;
    let queue = start(creating(&kafka));
    let dotted = Topic::new(&fresh("a.b").as_str().replace('-', ".")).unwrap();
    kafka.create_topic(dotted.as_str(), 1, &[]).await;
    let colliding = Topic::new(&dotted.as_str().replace('.', "_")).unwrap();
    let refused = produce(&queue, message(&colliding, "x")).await;
    assert!(matches!(&refused, Err(ProduceError::RecordRefused(why)) if why.contains(colliding.as_str())), "{refused:?}");
}

#[tokio::test]
async fn while_the_cluster_is_away_nothing_is_created_and_that_is_said_in_time() {
    let queue = start(Options { auto_create_topics: true, produce_timeout: Duration::from_secs(3), ..at("127.0.0.1:1".into()) });
    let answer = timeout(Duration::from_secs(3), queue.produce(message(&fresh("away"), "x"), Ack::All)).await.unwrap();
    assert!(matches!(answer, Err(ProduceError::NotWritten(NotWritten::Unavailable, _))), "{answer:?}");
}

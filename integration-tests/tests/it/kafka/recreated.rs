//! A topic that is deleted and made again while its leader's epochs grow, as they do with each restart of a broker: a client
//! that has seen a higher one takes no notice of a lower one.

use std::time::Instant;

use common::ids::{Epoch, Offset, Partition};

use super::*;

/// Before a reader is found to stand still.
const SOON: Duration = Duration::from_secs(15);

#[tokio::test]
async fn a_topic_that_is_made_again_and_again_is_read_soon_each_time() {
    let mut kafka = Kafka::start(Version::Four).await;
    let (queue, topic) = (queue(&kafka), fresh("again"));
    kafka.create_topic(topic.as_str(), 1, &[]).await;
    for generation in 0..4 {
        let began = Instant::now();
        let mut reader = queue.open(&topic, Partition(0), Offset(0), Epoch(1)).await.unwrap();
        let written = until_produced(&queue, message(&topic, "first")).await;
        read_to(&mut *reader, written.offset.0 + 1).await;
        assert!(began.elapsed() < SOON, "{:?} in generation {generation}", began.elapsed());
        if generation < 2 {
            kafka.stop().await;
            kafka.restart().await;
            let written = until_produced(&queue, message(&topic, "in a higher epoch")).await;
            read_to(&mut *reader, written.offset.0 + 1).await;
        }
        drop(reader);
        let former = queue.topic(&topic).await.unwrap().unwrap().id;
        kafka.recreate_topic(topic.as_str(), 1).await;
        let is_another = async || queue.topic(&topic).await.ok().flatten().filter(|info| info.id != former);
        wait::until("the other topic to be known", PATIENCE, is_another).await;
    }
}

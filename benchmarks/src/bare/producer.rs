//! librdkafka, which writes messages in bulk, and then one after the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

use crate::clock::now_ns;
use crate::keys::{Labels, Spread};
use crate::message::{SIZE_BYTES, key_name};

#[derive(Default)]
struct Written {
    count: AtomicU64,
    last_ns: AtomicU64,
}

impl ClientContext for Written {}

impl ProducerContext for Written {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        result.as_ref().expect("the broker takes it");
        self.last_ns.store(now_ns(), Ordering::Release);
        self.count.fetch_add(1, Ordering::Release);
    }
}

/// Says how many a second were acknowledged in bulk, then, of 2,000 single ones, the median and the 99th percentile in µs.
pub(crate) fn write(brokers: &str, topic: &str, messages: u32) -> anyhow::Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("enable.idempotence", "true").set("partitioner", "murmur2_random").set("linger.ms", "0");
    config.set("queue.buffering.max.messages", "1000000").set("queue.buffering.max.kbytes", "1048576");
    let producer: ThreadedProducer<Written> = config.create_with_context(Written::default())?;
    let began = now_ns();
    for label in Labels::new(Spread::Even, 10_000).take(messages as usize) {
        let (key, body) = (key_name(label.key), label.body(SIZE_BYTES));
        producer.send(BaseRecord::to(topic).key(&key).payload(&body[..])).map_err(|(error, _)| error)?;
    }
    producer.flush(Duration::from_secs(60))?;
    println!("{}", f64::from(messages) / ((now_ns() - began) as f64 / 1e9));
    let mut latency = Histogram::<u64>::new(3)?;
    for label in Labels::new(Spread::Even, 10_000).take(2_000) {
        let (key, body) = (key_name(label.key), label.body(SIZE_BYTES));
        let (before, began) = (producer.context().count.load(Ordering::Acquire), now_ns());
        producer.send(BaseRecord::to(topic).key(&key).payload(&body[..])).map_err(|(error, _)| error)?;
        while producer.context().count.load(Ordering::Acquire) == before {
            std::thread::sleep(Duration::from_micros(5));
        }
        latency.record((producer.context().last_ns.load(Ordering::Acquire) - began) / 1_000)?;
    }
    println!("{} {}", latency.value_at_quantile(0.5), latency.value_at_quantile(0.99));
    std::thread::park();
    Ok(())
}

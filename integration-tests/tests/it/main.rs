//! Everything that is only true of the whole: the release binary, real disks, real sockets.
#![allow(clippy::unwrap_used, clippy::too_many_lines, clippy::large_futures)]

/// Makes of each of these scenes a test on each backend.
macro_rules! on_each_backend {
    ($($scene:ident,)+) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scene() {
                super::$scene(integration_tests::backend::Backend::Embedded).await;
            })+
        }

        mod kafka_and_zookeeper {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scene() {
                super::$scene(integration_tests::backend::Backend::KafkaAndZooKeeper).await;
            })+
        }
    };
}

mod bounds;
mod clients;
mod cluster;
mod compose;
mod connecting;
mod crash;
mod delay;
mod deliveries;
mod drain;
mod embedded_ledger;
mod hazards;
mod kafka;
mod main_job;
mod operating;
mod original;
mod outage;
mod policy;
mod receivers;
mod reload;
mod replay;
mod sharing;
mod slow_clients;
mod targets;
mod tidy;
mod timeouts;
mod zookeeper;

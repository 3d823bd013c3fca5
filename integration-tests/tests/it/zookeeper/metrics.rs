//! What is counted: connections, sessions, and consumers that are not of the fleet.

use std::time::Duration;

use common::coordinator::zookeeper::Metrics;
use common::coordinator::{Coordinator, ZooKeeperCoordinator};
use common::telemetry::Exposition;
use integration_tests::relay::{Flow, Relay};
use integration_tests::wait;
use integration_tests::zookeeper::tool::Kind;

use super::{SESSION, World, claimed, settle};

pub(super) struct Scraped(common::telemetry::Metrics);

impl Scraped {
    pub(super) fn new() -> (Self, Metrics) {
        let mut registry = common::telemetry::Metrics::new("0");
        let metrics = Metrics::register(registry.registry());
        (Self(registry), metrics)
    }

    pub(super) fn reads(&self, line: &str) -> bool {
        self.0.encode(Exposition::Prometheus).lines().any(|read| read == line)
    }

    pub(super) async fn until(&self, line: &str) {
        wait::until(line, SESSION * 5, async || self.reads(line).then_some(())).await;
    }
}

#[tokio::test]
async fn connections_and_lost_sessions_are_counted_over_all_coordinators() {
    let world = World::fresh().await;
    let (scraped, metrics) = Scraped::new();
    let relay = Relay::start(world.servers.addr(0)).await;
    let cut = ZooKeeperCoordinator::open(world.options(&relay.addr().to_string()), &metrics);
    let other = ZooKeeperCoordinator::open(world.options(&world.servers.connect_string()), &metrics);
    settle(&cut, "cut").await;
    settle(&other, "other").await;
    scraped.until("mqgate_zookeeper_sessions 2").await;
    scraped.until("mqgate_zookeeper_connected 2").await;
    relay.both(Flow::Hold);
    relay.reset();
    scraped.until("mqgate_zookeeper_connected 1").await;
    assert!(scraped.reads("mqgate_zookeeper_disconnections_total 1") && scraped.reads("mqgate_zookeeper_sessions_lost_total 0"));
    wait::until("the servers end the session", SESSION * 3, async || {
        world.tool().get(&world.path("/mqgate/fleet/cut")).is_none().then_some(())
    })
    .await;
    relay.both(Flow::Pass);
    relay.reset();
    scraped.until("mqgate_zookeeper_sessions_lost_total 1").await;
    scraped.until("mqgate_zookeeper_connected 2").await;
    let lease = cut.lease();
    wait::until("it is in the fleet again", SESSION * 2, async || lease.holds().then_some(())).await;
    drop(other);
    scraped.until("mqgate_zookeeper_sessions 1").await;
    scraped.until("mqgate_zookeeper_connected 1").await;
}

#[tokio::test]
async fn a_consumer_that_is_not_of_the_fleet_is_counted_until_it_is_gone() {
    let world = World::fresh().await;
    let (scraped, metrics) = Scraped::new();
    let mut original = world.tool();
    original.put(&world.path("/consumers/g/ids"), "");
    let id = world.path("/consumers/g/ids/host:8a8e44f0-0d9b-4c5e-93f4-0c8c0d7a3f1e");
    original.create(&id, r#"{"pattern":"static","subscription":{"t":1},"timestamp":1,"version":1}"#, Kind::Ephemeral).unwrap();
    let coordinator = ZooKeeperCoordinator::open(world.options(&world.servers.connect_string()), &metrics);
    settle(&coordinator, "one").await;
    let _ours = world.member("two").await;
    scraped.until("mqgate_foreign_consumers{group=\"g\"} 1").await;
    claimed(&coordinator).await;
    drop(original);
    wait::until("it is gone", Duration::from_secs(30), async || scraped.reads("mqgate_foreign_consumers{group=\"g\"} 0").then_some(()))
        .await;
}

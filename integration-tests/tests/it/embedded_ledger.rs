//! The ledger over `mqgate standalone`, which is killed again and again under keyed traffic, with everything that can
//! befall one machine: power cuts, a full disk, a clock that jumps, retention, and operators who replay and pause.
//!
//! `MQGATE_LEDGER_KILLS` and `MQGATE_LEDGER_SEED` make it longer and another one. The seed fixes what is done, not how that
//! falls together with the traffic.

use std::time::{Duration, Instant};

use bytes::Bytes;
use integration_tests::gateway::{Setup, group};
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::shim::Syncs;
use serde_json::json;

use self::receivers::Callbacks;
use self::report::Report;
use self::traffic::Traffic;
use self::world::World;

mod operator;
mod plan;
mod power_cut;
mod receivers;
mod report;
mod traffic;
mod world;

const TOPIC: &str = "orders";
const PARTITIONS: u32 = 4;
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);

fn number(variable: &str, or: u64) -> u64 {
    std::env::var(variable).map_or(or, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_with_nobody_posting_repeats_nothing_that_was_stored() {
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    let dir = tempfile::tempdir().unwrap();
    let syncs = Syncs::new(dir.path());
    let policy = json!({"failed_sleep": "200ms", "commit_interval": "100ms"});
    let mut setup = Setup::groups([group("g", TOPIC, &receiver.url(), &policy)]);
    setup.environment = syncs.environment();
    let mut gateway = setup.start().await;
    let producer = Producer::new(gateway.api, TOPIC);
    for n in 0..200 {
        producer.plain(Some(&format!("k{n}")), &[], Bytes::from(n.to_string())).await.unwrap();
    }
    receiver.script(|_| Answer::Status(200));
    gateway.until_caught_up("g", Duration::from_secs(20)).await;
    gateway.until_stored("g", Duration::from_secs(5)).await;
    gateway.kill();
    power_cut::to_the_last_sync(&gateway.data_dir(), &syncs);
    receiver.clear();
    gateway.restart().await;
    producer.plain(Some("last"), &[], Bytes::from_static(b"last")).await.unwrap();
    gateway.until_caught_up("g", Duration::from_secs(20)).await;
    assert_eq!(receiver.seen().iter().map(|seen| seen.text().to_owned()).collect::<Vec<_>>(), ["last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_power_cuts_a_full_disk_and_a_jumping_clock_lose_and_reorder_nothing() {
    let (seed, kills) = (number("MQGATE_LEDGER_SEED", 1), number("MQGATE_LEDGER_KILLS", 10));
    eprintln!("seed {seed}, {kills} kills");
    let callbacks = Callbacks::start().await;
    let mut world = World::start(seed, kills, &callbacks).await;
    let traffic = Traffic::start(world.api());
    let began = Instant::now();
    for plan in plan::draw(seed, kills) {
        world.live_and_die(plan, began).await;
    }
    let sent = traffic.stop().await;
    callbacks.heal();
    world.settle(&sent, &callbacks).await;
    let report = Report::new(&world, &sent, &callbacks);
    eprintln!("{report}");
    world.assert_nothing_went_undelivered();
    report.assert_kept();
    world.assert_all_was_tried().await;
}

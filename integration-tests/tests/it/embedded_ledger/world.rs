//! The one process on its small disk, and what is done to it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use integration_tests::gateway::{Gateway, Setup};
use integration_tests::jumping_clock::JumpingClock;
use integration_tests::shim::Syncs;
use integration_tests::small_disk::SmallDisk;
use integration_tests::wait;
use rand::RngExt;
use serde_json::json;

use super::operator::Operator;
use super::plan::{Deed, Plan, Tail};
use super::power_cut;
use super::receivers::{Callbacks, GROUPS};
use super::report::missing;
use super::traffic::Sent;
use super::{PARTITIONS, TOPIC};

const DISK_BYTES: u64 = 256 << 20;
/// Less than the log keeps free for itself.
const FULL_BYTES: u64 = 2 << 20;
const SETTLE: Duration = Duration::from_secs(60);

/// The end of one life.
#[derive(Debug)]
pub(super) struct Kill {
    pub(super) at: Instant,
    pub(super) tail: Tail,
    /// Bytes that no sync had passed, of which the power cut took some.
    pub(super) torn_bytes: u64,
    /// Until it was ready again.
    pub(super) away: Duration,
    pub(super) sync_delay: Duration,
}

pub(super) struct World {
    // The gateway goes first: the disk cannot while it is in use.
    gateway: Gateway,
    disk: SmallDisk,
    syncs: Syncs,
    clock: JumpingClock,
    pub(super) seed: u64,
    pub(super) operator: Operator,
    pub(super) kills: Vec<Kill>,
    pub(super) full_disks: usize,
    _shims: tempfile::TempDir,
}

impl World {
    pub(super) async fn start(seed: u64, kills: u64, callbacks: &Callbacks) -> Self {
        let disk = SmallDisk::mount(DISK_BYTES);
        let shims = tempfile::tempdir().unwrap();
        let (syncs, clock) = (Syncs::new(shims.path()), JumpingClock::new(shims.path()));
        let mut setup = Setup::groups(callbacks.configured());
        // What is stuck holds the log back until the end, so a longer run needs a larger one.
        let retention_bytes = format!("{}MiB", 16 * (kills / 10).clamp(1, 4));
        // Everything that all groups have passed goes with the next full segment, which has an eighth of the size.
        setup = setup.embedded("retention", json!("1s")).embedded("retention_bytes", json!(retention_bytes));
        setup = setup.embedded("partitions", json!(PARTITIONS));
        setup.environment = clock.added_to(syncs.environment());
        (setup.wrapper, setup.data_dir) = (disk.enter(), Some(disk.dir()));
        let gateway = setup.start().await;
        gateway.create_topic(TOPIC, PARTITIONS).await;
        let operator = Operator::new(gateway.admin);
        Self { gateway, disk, syncs, clock, seed, operator, kills: Vec::new(), full_disks: 0, _shims: shims }
    }

    pub(super) fn api(&self) -> SocketAddr {
        self.gateway.api
    }

    pub(super) async fn live_and_die(&mut self, plan: Plan, began: Instant) {
        let Plan { deed, tail, clock_off_seconds, sync_delay, lives, stays_down, mut random } = plan;
        eprintln!(
            "{:6.1} s  {deed:?}, then kill -9 and the tail {tail:?}; clock off by {} h, syncs {sync_delay:?} slower",
            began.elapsed().as_secs_f64(),
            clock_off_seconds / 3600
        );
        self.syncs.delay(sync_delay);
        self.clock.set_off_by(clock_off_seconds);
        tokio::time::sleep(lives[0]).await;
        match deed {
            Deed::Nothing => {}
            Deed::FillDisk => {
                self.disk.fill(FULL_BYTES + random.random_range(0..1 << 20));
                self.full_disks += 1;
            }
            Deed::Replay => self.operator.replay(&mut random).await,
            Deed::Pause => self.operator.pause(&mut random).await,
        }
        tokio::time::sleep(lives[1]).await;
        self.gateway.kill();
        let at = Instant::now();
        let torn_bytes = power_cut::strike(&self.disk.dir_from_outside(), &self.syncs, tail, &mut random);
        tokio::time::sleep(stays_down).await;
        let away = self.begin_again(deed, at).await;
        self.kills.push(Kill { at, tail, torn_bytes, away, sync_delay });
    }

    /// On a full disk it starts and says what is missing; there is room only then.
    async fn begin_again(&mut self, deed: Deed, killed: Instant) -> Duration {
        let began = Instant::now();
        self.gateway.spawn();
        if deed == Deed::FillDisk {
            wait::until("mqgate to answer on a full disk", Duration::from_secs(20), || self.gateway.missing()).await;
            self.disk.empty();
        }
        self.gateway.until_ready().await;
        let away = began.elapsed();
        if deed == Deed::Pause {
            // Long enough for an attempt that is not to be made.
            tokio::time::sleep(Duration::from_millis(400)).await;
            self.operator.resume(killed).await;
        }
        away
    }

    /// Until every group has got all that was acknowledged, and every cursor stands at its end.
    pub(super) async fn settle(&self, sent: &Sent, callbacks: &Callbacks) {
        self.syncs.obey_the_disk();
        let began = Instant::now();
        while began.elapsed() < SETTLE && callbacks.all.iter().any(|callback| !missing(callback, sent).is_empty()) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for group in GROUPS {
            self.gateway.until_caught_up(group, Duration::from_secs(20)).await;
        }
    }

    /// Where the log was too large, what was not delivered went, and was said to: that is nothing to judge by.
    pub(super) fn assert_nothing_went_undelivered(&self) {
        let log = self.gateway.log();
        assert!(!log.contains("records dropped that a group had not delivered"), "the receivers were too slow for this retention");
    }

    /// A run that proves something met each of the things that it is about.
    pub(super) async fn assert_all_was_tried(&self) {
        let bounds = self.gateway.topic_bounds(TOPIC).await;
        assert!(bounds.iter().any(|(first, _)| *first > 0), "retention was not at work: {bounds:?}");
        assert!(self.kills.iter().any(|kill| kill.torn_bytes > 0), "no kill came in the middle of a write");
        assert!(
            self.operator.replays.iter().any(|replay| replay.answered.is_some()),
            "every replay was refused: {:?}",
            self.operator.replays
        );
        assert!(!self.operator.pauses.is_empty() && self.full_disks > 0);
        let log = self.gateway.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

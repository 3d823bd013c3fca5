//! What befalls each life of the process, from the seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What is done while it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Nothing,
    /// The disk is full from some moment on, and when the next life begins.
    FillDisk,
    Replay,
    /// The group stays paused into the next life.
    Pause,
}

/// What becomes of the bytes at the journal's end that no sync had passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// All of them are there: the process was killed, not the machine.
    Kept,
    /// It ends anywhere among them.
    Cut,
    /// Zeros from anywhere on.
    Zeros,
    /// A few are zeros, and the rest is there.
    Hole,
    Garbage,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) deed: Deed,
    pub(super) tail: Tail,
    /// The wall clock against the real one.
    pub(super) clock_off_seconds: i64,
    /// Each sync takes so much longer.
    pub(super) sync_delay: Duration,
    /// Until the deed, and from there to the kill.
    pub(super) lives: [Duration; 2],
    pub(super) stays_down: Duration,
    /// For what is drawn while it is carried out.
    pub(super) random: StdRng,
}

const HOUR: i64 = 3600;
const CLOCKS: [i64; 7] = [0, HOUR, -HOUR, 50 * HOUR, -50 * HOUR, 9_000 * HOUR, -9_000 * HOUR];
const TAILS: [Tail; 5] = [Tail::Cut, Tail::Zeros, Tail::Hole, Tail::Garbage, Tail::Kept];
const DEEDS: [Deed; 5] = [Deed::Replay, Deed::FillDisk, Deed::Pause, Deed::Replay, Deed::Nothing];

/// Every kind comes soon, so that a short run has them all; the seed says when, for how long and together with what.
pub(super) fn draw(seed: u64, kills: u64) -> Vec<Plan> {
    let mut random = StdRng::seed_from_u64(seed);
    let (tail, deed) = (random.random_range(0..TAILS.len()), random.random_range(0..DEEDS.len()));
    let plan = |kill: u64| {
        let kill = usize::try_from(kill).expect("a number of kills is small");
        let mut millis = |least: u64, most: u64| Duration::from_millis(random.random_range(least..most));
        let (sync_delay, lives, stays_down) = (millis(0, 25), [millis(50, 900), millis(50, 700)], millis(0, 150));
        Plan {
            deed: DEEDS[(deed + kill) % DEEDS.len()],
            // Two rounds of the deeds meet different tails.
            tail: TAILS[(tail + kill + kill / DEEDS.len()) % TAILS.len()],
            clock_off_seconds: CLOCKS[random.random_range(0..CLOCKS.len())],
            sync_delay,
            lives,
            stays_down,
            random: StdRng::seed_from_u64(random.random()),
        }
    };
    (0..kills).map(plan).collect()
}

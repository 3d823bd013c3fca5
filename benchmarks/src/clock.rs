//! One clock for all processes of a run.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).expect("the machine has started") * 1_000_000_000 + u64::try_from(now.tv_nsec).expect("a part of a second")
}

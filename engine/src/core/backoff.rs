//! How long to wait, as pure functions.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::RngExt;
use rand::rngs::SmallRng;
use tokio::time::Instant;

use crate::options::Backoff;

/// The pause after the given number of failures in a row (from 1): doubling from `initial`, at
/// most `max`, uniform in [half, whole].
pub(crate) fn pause_after(failures: u32, backoff: Backoff, rng: &mut SmallRng) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let whole = backoff.initial.saturating_mul(1 << doublings).min(backoff.max);
    whole.mul_f64(rng.random_range(0.5..=1.0))
}

/// When a delayed event becomes ready: `delay` after its own time, but no later than `delay` after
/// its arrival, however wrong its time is. `None`: it is ready.
pub(crate) fn ready_at(time_ms: i64, delay: Duration, now: Instant, wall_now: SystemTime) -> Option<Instant> {
    // Whole milliseconds, rounded down: the remainder makes the wait longer, never shorter.
    let wall_ms = match wall_now.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(_) => 0,
    };
    let age_ms = wall_ms.saturating_sub(time_ms);
    let wait = match u64::try_from(age_ms) {
        Ok(age) => delay.saturating_sub(Duration::from_millis(age)),
        Err(_) => delay,
    };
    if wait.is_zero() { None } else { now.checked_add(wait) }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(10) };

    #[test]
    fn pauses_double_to_the_maximum_and_lie_in_the_upper_half() {
        let mut rng = SmallRng::seed_from_u64(7);
        for (failures, whole_ms) in [(1, 100), (2, 200), (5, 1600), (7, 6400), (8, 10_000), (60, 10_000), (u32::MAX, 10_000)] {
            let whole = Duration::from_millis(whole_ms);
            let pauses: Vec<_> = (0..200).map(|_| pause_after(failures, BACKOFF, &mut rng)).collect();
            assert!(pauses.iter().all(|pause| *pause >= whole / 2 && *pause <= whole), "{failures}");
            let (low, high) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
            assert!(*high - *low > whole / 4, "spread after {failures}: {low:?}..{high:?}");
        }
    }

    #[test]
    fn a_delay_counts_from_the_events_time_and_never_past_arrival_plus_delay() {
        let (now, delay) = (Instant::now(), Duration::from_secs(5));
        let wall = UNIX_EPOCH + Duration::from_millis(1_000_000) + Duration::from_micros(700);
        let ready = |time_ms| ready_at(time_ms, delay, now, wall);
        assert_eq!(ready(1_000_000), Some(now + delay));
        assert_eq!(ready(998_000), Some(now + Duration::from_secs(3)));
        assert_eq!(ready(995_000), None);
        assert_eq!(ready(1_004_000), Some(now + delay), "a clock ahead of ours");
        assert_eq!(ready(i64::MAX), Some(now + delay));
        assert_eq!(ready(i64::MIN), None);
        assert_eq!(ready(-1), None, "no time at all");
    }
}

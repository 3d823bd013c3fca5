//! The wall clock, read in one place. Monotonic time is tokio's, so that tests can pause it.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::record::TimestampMs;

/// Milliseconds since 1970-01-01T00:00:00Z by the machine's clock; before 1970 it is 1970.
pub fn now_ms() -> TimestampMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs::try_from(since.as_millis()).unwrap_or(TimestampMs::MAX)
}

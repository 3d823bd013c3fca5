//! Counting.

use std::fmt;
use std::path::Path;

use dhat::{HeapStats, Profiler};

/// Deep enough for the way from a task to what it calls.
const FRAMES_OF_A_PROFILE: usize = 60;
/// The fewest that are possible; looking for them is what counting costs.
const FRAMES_OF_A_COUNT: usize = 4;

/// By all threads; growing what was allocated counts like allocating it anew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    pub(crate) allocations: f64,
    pub(crate) bytes: f64,
}

impl Cost {
    /// Of one of those that `work` says it did.
    pub(crate) fn of_one(name: &str, work: impl FnOnce() -> u32) -> Self {
        let profiler = profiler(name);
        let done = f64::from(work());
        let HeapStats { total_blocks, total_bytes, .. } = HeapStats::get();
        drop(profiler);
        #[expect(clippy::cast_precision_loss, reason = "exact to 2^53")]
        let of_one = |total: u64| total as f64 / done;
        Self { allocations: of_one(total_blocks), bytes: of_one(total_bytes) }
    }
}

fn profiler(name: &str) -> Profiler {
    match std::env::var_os("MQGATE_HEAP_PROFILE") {
        Some(folder) => {
            let file = Path::new(&folder).join(name).with_extension("json");
            Profiler::builder().file_name(file).trim_backtraces(Some(FRAMES_OF_A_PROFILE)).build()
        }
        None => Profiler::builder().testing().trim_backtraces(Some(FRAMES_OF_A_COUNT)).build(),
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} allocations of {:.0} bytes", self.allocations, self.bytes)
    }
}

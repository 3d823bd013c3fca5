//! What the program says about itself: logs on stderr, and metrics for a scraper.

pub use self::exposition::Exposition;
pub use self::logs::init as init_logs;
pub use self::metrics::Metrics;

mod exposition;
mod logs;
mod metrics;
mod process;

//! Logs, the metrics registry, and the process's own metrics.

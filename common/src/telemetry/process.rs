//! What the kernel says about this process, read at scrape time.

use std::fmt::Error;

use procfs::process::{LimitValue, Process as Me};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The metrics that Prometheus's own client libraries call `process_…`. What cannot be read is
/// left out, and the rest of the scrape stands.
#[derive(Debug, Default)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let Ok(me) = Me::myself() else { return Ok(()) };
        let mut gauge = |name: &str, help: &str, value: f64| {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        if let Ok(open) = me.fd_count() {
            gauge("process_open_fds", "Open file descriptors.", open as f64)?;
        }
        if let Ok(limits) = me.limits() {
            let soft = match limits.max_open_files.soft_limit {
                LimitValue::Unlimited => f64::INFINITY,
                LimitValue::Value(limit) => limit as f64,
            };
            gauge("process_max_fds", "Limit on open file descriptors.", soft)?;
        }
        let Ok(stat) = me.stat() else { return Ok(()) };
        let ticks_per_second = procfs::ticks_per_second() as f64;
        gauge("process_resident_memory_bytes", "Resident memory in bytes.", (stat.rss * procfs::page_size()) as f64)?;
        gauge("process_threads", "Threads of the operating system.", stat.num_threads as f64)?;
        if let Ok(boot_seconds) = procfs::boot_time_secs() {
            let started = boot_seconds as f64 + stat.starttime as f64 / ticks_per_second;
            gauge("process_start_time_seconds", "Start of the process, in seconds since 1970.", started)?;
        }
        let cpu = ConstCounter::new((stat.utime + stat.stime) as f64 / ticks_per_second);
        let help = "Time spent on a processor, in seconds.";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, cpu.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use prometheus_client::encoding::prometheus_text;
    use prometheus_client::registry::Registry;

    use super::*;

    fn scraped(name: &str) -> f64 {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("no {name} in {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn the_process_is_measured_as_it_is() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let started = scraped("process_start_time_seconds");
        assert!((now - 3600.0..=now + 5.0).contains(&started), "{started} is not shortly before {now}");
        assert!(scraped("process_resident_memory_bytes") > 100_000.0);
        assert!(scraped("process_threads") >= 1.0);
        assert!(scraped("process_max_fds") >= scraped("process_open_fds"));
        assert!(scraped("process_cpu_seconds_total") >= 0.0);
    }

    #[test]
    fn an_opened_file_is_counted() {
        let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/proc/self/stat").unwrap()).collect();
        assert!(scraped("process_open_fds") >= files.len() as f64);
    }
}

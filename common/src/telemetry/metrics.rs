//! The registry of every metric in the process.

use std::fmt;

use futures_util::future::BoxFuture;
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::Exposition;
use super::process::Process;

const PREFIX: &str = "mqgate";

/// Components register here while the program starts; shared and read-only from then on.
pub struct Metrics {
    /// `process_…`, named as every other program names them, so without the prefix.
    process: Registry,
    mqgate: Registry,
    before_scrape: Vec<Refresh>,
}

type Refresh = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl Metrics {
    /// With the process's own metrics and `mqgate_build_info` in place.
    pub fn new(version: &'static str) -> Self {
        let mut process = Registry::default();
        process.register_collector(Box::new(Process));
        let mut mqgate = Registry::with_prefix(PREFIX);
        mqgate.register("build", "Which build this is", Info::new([("version", version)]));
        Self { process, mqgate, before_scrape: Vec::new() }
    }

    /// Where names get the prefix `mqgate_`: register `delivered`, not `mqgate_delivered_total`.
    /// A counter must not end in `_total`, which the encoding adds.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.mqgate
    }

    /// `refresh` is awaited before every scrape: for what need be known only when somebody looks.
    pub fn before_scrape(&mut self, refresh: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static) {
        self.before_scrape.push(Box::new(refresh));
    }

    /// Everything, as of now.
    pub async fn scrape(&self, exposition: Exposition) -> String {
        for refresh in &self.before_scrape {
            refresh().await;
        }
        self.encode(exposition)
    }

    /// Everything, as of the last refresh.
    pub fn encode(&self, exposition: Exposition) -> String {
        let mut text = String::new();
        let written = match exposition {
            Exposition::Prometheus => {
                prometheus_text::encode(&mut text, &self.process).and_then(|()| prometheus_text::encode(&mut text, &self.mqgate))
            }
            Exposition::OpenMetrics => text::encode_registry(&mut text, &self.process).and_then(|()| text::encode(&mut text, &self.mqgate)),
        };
        written.expect("writing to a string does not fail, and no collector makes up an error");
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("mqgate", &self.mqgate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::histogram::Histogram;

    use super::*;

    fn some() -> Metrics {
        let mut metrics = Metrics::new("1.2.3");
        let delivered = Family::<Vec<(String, String)>, Counter>::default();
        delivered.get_or_create(&vec![("group".into(), "a\"b".into())]).inc_by(7);
        metrics.registry().register("delivered", "Records delivered", delivered);
        let seconds = Histogram::new([0.1, 1.0]);
        seconds.observe(0.5);
        metrics.registry().register("attempt_duration_seconds", "Of one attempt", seconds);
        metrics
    }

    #[test]
    fn counters_in_plain_text_are_typed_under_the_name_that_is_scraped() {
        let text = some().encode(Exposition::Prometheus);
        assert!(text.contains("# TYPE mqgate_delivered_total counter\nmqgate_delivered_total{group=\"a\\\"b\"} 7\n"), "{text}");
        assert!(text.contains("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total "), "{text}");
        assert!(text.contains("# TYPE mqgate_build_info gauge\nmqgate_build_info{version=\"1.2.3\"} 1\n"), "{text}");
        assert!(text.contains("mqgate_attempt_duration_seconds_bucket{le=\"1\"} 1\n"), "{text}");
        assert!(!text.contains("# EOF"));
    }

    #[test]
    fn open_metrics_ends_once_and_names_the_same_series() {
        let metrics = some();
        let (open, plain) = (metrics.encode(Exposition::OpenMetrics), metrics.encode(Exposition::Prometheus));
        assert_eq!(open.matches("# EOF").count(), 1);
        assert!(open.ends_with("# EOF\n"));
        let names = |text: &str| -> Vec<String> {
            let series = text.lines().filter(|line| !line.starts_with('#'));
            let mut names: Vec<_> = series.map(|line| line.split(['{', ' ']).next().unwrap_or_default().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&open), names(&plain));
    }
}

//! What is counted. Every series exists from the start, so that no client can add one.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Which way of producing a request took; `None` for a path that is no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Plain,
    Original,
    Batch,
    None,
}

const DIALECTS: [(Dialect, &str); 4] =
    [(Dialect::Plain, "plain"), (Dialect::Original, "original"), (Dialect::Batch, "batch"), (Dialect::None, "none")];

/// Every status that this server gives to a request.
const STATUSES: [(u16, &str); 14] = [
    (200, "200"),
    (202, "202"),
    (400, "400"),
    (404, "404"),
    (405, "405"),
    (408, "408"),
    (413, "413"),
    (415, "415"),
    (417, "417"),
    (422, "422"),
    (429, "429"),
    (503, "503"),
    (504, "504"),
    (500, "500"),
];

/// What became of a message that was handed to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Written,
    Refused,
    Unknown,
}

const OUTCOMES: [&str; 3] = ["written", "refused", "unknown"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    dialect: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RecordLabels {
    outcome: &'static str,
}

pub(crate) struct Metrics {
    requests: [[Counter; STATUSES.len()]; DIALECTS.len()],
    records: [Counter; OUTCOMES.len()],
    pub(crate) duration_seconds: Histogram,
    pub(crate) in_flight: Gauge,
    pub(crate) aborted_uploads: Counter,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let requests = Family::<RequestLabels, Counter>::default();
        let records = Family::<RecordLabels, Counter>::default();
        let series = |dialect, status| requests.get_or_create(&RequestLabels { dialect, status }).clone();
        let metrics = Self {
            requests: DIALECTS.map(|(_, dialect)| STATUSES.map(|(_, status)| series(dialect, status))),
            records: OUTCOMES.map(|outcome| records.get_or_create(&RecordLabels { outcome }).clone()),
            duration_seconds: Histogram::new(SECONDS),
            in_flight: Gauge::default(),
            aborted_uploads: Counter::default(),
        };
        registry.register("produce_requests", "Requests by dialect and status of the answer", requests);
        registry.register("produce_records", "Messages handed to the queue, by what became of them", records);
        let help = "From the head of a request with one message to the queue's answer";
        registry.register("produce_duration_seconds", help, metrics.duration_seconds.clone());
        registry.register("produce_in_flight", "Requests let in and not over, their messages included", metrics.in_flight.clone());
        let help = "Bodies that ended before their announced end, or were cut off for being slow";
        registry.register("aborted_uploads", help, metrics.aborted_uploads.clone());
        metrics
    }

    pub(crate) fn answered(&self, dialect: Dialect, status: http::StatusCode) {
        // A status that nobody thought of is a fault of ours, and shows as one.
        let column = STATUSES.iter().position(|(known, _)| *known == status.as_u16()).unwrap_or(STATUSES.len() - 1);
        self.requests[dialect as usize][column].inc();
    }

    pub(crate) fn handed_over(&self, outcome: Outcome) {
        self.records[outcome as usize].inc();
    }
}

/// 100 µs to 10 s: from a commit on a fast disk to a long `produce_timeout`.
const SECONDS: [f64; 16] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn the_tables_are_in_the_order_of_their_enums() {
        for (row, (dialect, _)) in DIALECTS.iter().enumerate() {
            assert_eq!(*dialect as usize, row);
        }
        assert_eq!(OUTCOMES[Outcome::Unknown as usize], "unknown");
    }

    #[test]
    fn every_series_exists_before_the_first_request() {
        let mut registry = Registry::with_prefix("mqgate");
        let metrics = Metrics::register(&mut registry);
        let scrape = |registry: &Registry| {
            let mut text = String::new();
            text::encode(&mut text, registry).unwrap();
            text
        };
        let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        let before = scrape(&registry);
        metrics.answered(Dialect::Plain, StatusCode::OK);
        metrics.answered(Dialect::None, StatusCode::IM_A_TEAPOT);
        metrics.handed_over(Outcome::Written);
        let after = scrape(&registry);
        assert_eq!(series(&before), series(&after));
        assert!(after.contains("mqgate_produce_requests_total{dialect=\"plain\",status=\"200\"} 1\n"), "{after}");
        assert!(after.contains("mqgate_produce_requests_total{dialect=\"none\",status=\"500\"} 1\n"), "{after}");
    }
}

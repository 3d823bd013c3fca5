//! What is printed.

use comfy_table::{CellAlignment, ColumnConstraint, Table, presets};

use crate::load::Answered;
use crate::usage::Usage;

/// One figure of each kind, of one subject in one workload.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) subject: String,
    pub(crate) per_second: Option<f64>,
    /// In milliseconds: the median, the 99th percentile, the 99.9th, as far as they were measured.
    pub(crate) latency_ms: Vec<f64>,
    pub(crate) cpu_s_per_100k: Option<f64>,
    pub(crate) peak_mib: Option<f64>,
    pub(crate) elsewhere_cores: Option<f64>,
}

impl Row {
    pub(crate) fn new(workload: impl Into<String>, subject: impl Into<String>) -> Self {
        Self { workload: workload.into(), subject: subject.into(), ..Self::default() }
    }

    pub(crate) fn answered(self, answered: &Answered, usage: &Usage) -> Self {
        let of = |quantile| answered.latency_us.value_at_quantile(quantile) as f64 / 1_000.0;
        self.latency(vec![of(0.5), of(0.99), of(0.999)]).rate(answered.per_second()).used(usage, answered.records)
    }

    pub(crate) fn latency(mut self, latency_ms: Vec<f64>) -> Self {
        self.latency_ms = latency_ms;
        self
    }

    pub(crate) fn rate(mut self, per_second: f64) -> Self {
        self.per_second = Some(per_second);
        self
    }

    pub(crate) fn used(mut self, usage: &Usage, messages: u64) -> Self {
        self.cpu_s_per_100k = Some(usage.cpu_s_per_100k(messages));
        (self.peak_mib, self.elsewhere_cores) = (Some(usage.peak_mib), Some(usage.elsewhere_cores));
        self
    }

    fn cells(self) -> Vec<String> {
        let number = |value: Option<f64>, digits: usize| value.map_or_else(String::new, |value| format!("{value:.digits$}"));
        let latency = |at: usize| number(self.latency_ms.get(at).copied(), 2);
        let mut cells = vec![self.workload, self.subject, number(self.per_second, 0)];
        cells.extend([latency(0), latency(1), latency(2)]);
        cells.extend([number(self.cpu_s_per_100k, 2), number(self.peak_mib, 0), number(self.elsewhere_cores, 2)]);
        cells
    }
}

pub(crate) fn figures(rows: Vec<Row>) {
    let titles = ["WORKLOAD", "SUBJECT", "PER SECOND", "P50 MS", "P99 MS", "P99.9 MS", "CPU S/100K", "PEAK MIB", "ELSEWHERE"];
    print(&titles, 2, rows.into_iter().map(Row::cells));
}

/// The first `texts` columns stand left, numbers right.
pub(crate) fn print(titles: &[&str], texts: usize, rows: impl IntoIterator<Item = Vec<String>>) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(titles.to_vec());
    table.add_rows(rows);
    for index in 0..titles.len() {
        let column = table.column_mut(index).expect("the header made every column");
        column.set_padding((0, 2));
        column.set_constraint(ColumnConstraint::ContentWidth);
        if index >= texts {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{}\n", table.trim_fmt());
}

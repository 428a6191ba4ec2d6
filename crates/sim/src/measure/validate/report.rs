//! The table of predictions and measurements: its lines, when one holds, and how it is written.

use std::fmt::Write as _;

use super::Name;
use crate::measure::trial::Observed;
use crate::run::Outcome;

/// What came of it: lines, and what had to be left out and why.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of scenarios, engines and workers.
    pub rows: Vec<Row>,
    /// In words.
    pub left_out: Vec<String>,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which scenario.
    pub scenario: Name,
    /// The real engine.
    pub engine: &'static str,
    /// Its workers.
    pub workers: u32,
    /// What the models say.
    pub predicted: Outcome,
    /// What was seen.
    pub observed: Observed,
}

/// Throughput is to be within this of what was measured.
pub const THROUGHPUT_TOLERANCE: f64 = 0.15;
/// Median latency likewise.
pub const LATENCY_TOLERANCE: f64 = 0.25;

impl Row {
    /// Predicted over measured throughput, less one.
    pub fn throughput_error(&self) -> f64 {
        self.predicted.requests_per_s.mean / self.observed.requests_per_s - 1.0
    }

    /// Predicted over measured median latency, less one.
    pub fn latency_error(&self) -> f64 {
        self.predicted.latency_p50_us / self.observed.latency_p50_us - 1.0
    }

    /// Whether both are within what is asked for.
    pub fn holds(&self) -> bool {
        self.throughput_error().abs() <= THROUGHPUT_TOLERANCE && self.latency_error().abs() <= LATENCY_TOLERANCE
    }
}

impl Report {
    /// As a table for people.
    pub fn to_markdown(&self) -> String {
        let mut text = String::from(
            "| scenario | engine | workers | requests/s predicted | measured | error | p50 us predicted | measured | error | within | others |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |\n",
        );
        for row in &self.rows {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.0} | {:.0} | {:+.0} % | {:.0} | {:.0} | {:+.0} % | {} | {:.0} % |",
                row.scenario.name(),
                row.engine,
                row.workers,
                row.predicted.requests_per_s.mean,
                row.observed.requests_per_s,
                row.throughput_error() * 100.0,
                row.predicted.latency_p50_us,
                row.observed.latency_p50_us,
                row.latency_error() * 100.0,
                if row.holds() { "yes" } else { "no" },
                row.observed.foreign * 100.0
            );
        }
        for one in &self.left_out {
            let _ = writeln!(text, "\nLeft out: {one}.");
        }
        text
    }

    /// As CSV.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "scenario,engine,workers,predicted_requests_per_s,measured_requests_per_s,predicted_p50_us,measured_p50_us,\
             predicted_p99_us,measured_p99_us,server_us,load_us,foreign_share,predicted_hit_ratio,predicted_page_hit_ratio,\
             predicted_disk_reads,measured_disk_reads,measured_loaded_bytes,page_cache_bytes,measured_page_cache_bytes,\
             measured_resident_bytes,measured_group_bytes,measured_worker_connections,within\n",
        );
        for row in &self.rows {
            let (predicted, observed) = (&row.predicted, &row.observed);
            let connections: Vec<String> = observed.worker_connections.iter().map(u32::to_string).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{},{},{},{:.1},{:.1},{:.1},{:.1},{:.1},{:.1},{:.3},{:.3},{:.4},{:.4},{:.4},{:.5},{:.5},{:.0},{},{:.0},{:.0},{:.0},{},{}",
                row.scenario.name(),
                row.engine,
                row.workers,
                predicted.requests_per_s.mean,
                observed.requests_per_s,
                predicted.latency_p50_us,
                observed.latency_p50_us,
                predicted.latency_p99_us,
                observed.latency_p99_us,
                observed.server_us,
                observed.load_us - observed.vain_us,
                observed.foreign,
                predicted.hit_ratio,
                predicted.page_hit_ratio,
                predicted.reads_per_request,
                observed.disk_reads,
                observed.loaded_bytes,
                predicted.scenario.page_cache_bytes,
                observed.page_cache_bytes,
                observed.resident_bytes,
                observed.group_bytes,
                connections.join("+"),
                row.holds()
            );
        }
        text
    }
}

//! Outcomes as a table for a terminal, one line an architecture.

use std::fmt::Write;

use crate::run::Outcome;

/// A header line and a line for each outcome.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "{:20}{:>12}{:>8}{:>12}{:>12}{:>8}{:>8}{:>8}  bottleneck\n",
        "architecture", "requests/s", "+-", "p50 us", "p99 us", "hits %", "cpu %", "disk %"
    );
    for o in outcomes {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:20}{:>12.0}{:>8.0}{:>12.0}{:>12.0}{:>8.2}{:>8.1}{:>8.1}  {:?}",
            o.scenario.architecture.name(),
            o.requests_per_s.mean,
            o.requests_per_s.half_width.unwrap_or(f64::NAN),
            o.latency_p50_us,
            o.latency_p99_us,
            o.hit_ratio * 100.0,
            o.processor_utilisation * 100.0,
            o.disk_utilisation * 100.0,
            o.bottleneck
        );
    }
    text
}
